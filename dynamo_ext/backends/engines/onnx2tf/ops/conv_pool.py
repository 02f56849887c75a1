"""ONNX's convolutions and poolings, in XLA's own terms.

TensorFlow's operations of these names have fewer layouts and paddings than XLA's, which they
become anyway.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.onnx2tf.ops.onnx_node import Call, converts, sizes, wide

if TYPE_CHECKING:
    from collections.abc import Sequence

_MOST_TAPS = 64
"""Places in a kernel up to which a depthwise convolution is written out."""


def _xla() -> Any:
    from tensorflow.compiler.tf2xla.python import xla

    return xla


def _pads(call: Call, dims: int) -> list[tuple[int, int]]:
    if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        call.refuse(f"auto_pad {call.get('auto_pad')}")
    pads = list(call.get("pads") or [0] * (2 * dims))
    return list(zip(pads[:dims], pads[dims:], strict=True))


def _numbers(dims: int) -> Any:
    """Which dimension is what: channels second, and a kernel's outputs first."""
    from tensorflow.compiler.xla import xla_data_pb2

    space = list(range(2, dims + 2))
    return xla_data_pb2.ConvolutionDimensionNumbers(
        input_batch_dimension=0,
        input_feature_dimension=1,
        input_spatial_dimensions=space,
        kernel_output_feature_dimension=0,
        kernel_input_feature_dimension=1,
        kernel_spatial_dimensions=space,
        output_batch_dimension=0,
        output_feature_dimension=1,
        output_spatial_dimensions=space,
    )


def _depthwise(call: Call, value: Any, kernel: Any, space: Sequence[int], window: Any) -> Any:
    """A convolution of each channel by itself: a sum over the kernel's places.

    XLA's own on the CPU took ninety times torch's time; it makes one loop of such a sum.
    """
    tf = call.tf
    shape, strides, dilations, pads = window
    each = sizes(kernel)[0] // sizes(value)[1]
    # Before padding, so that a stretch of channels lies as the kernel's outputs do.
    spread = tf.repeat(value, each, axis=1) if each > 1 else value
    spread = tf.pad(wide(tf, spread), [(0, 0), (0, 0), *pads])
    taps = tf.reshape(wide(tf, kernel), [sizes(kernel)[0], math.prod(shape)])
    total = None
    for number, place in enumerate(itertools.product(*map(range, shape))):
        cut = [slice(None), slice(None)]
        for i, step, dilation, count in zip(place, strides, dilations, space, strict=True):
            first = i * dilation
            cut.append(slice(first, first + (count - 1) * step + 1, step))
        factor = tf.reshape(taps[:, number], [1, -1] + [1] * len(shape))
        term = spread[tuple(cut)] * factor
        total = term if total is None else total + term
    return tf.cast(total, value.dtype)


@converts("Conv")
def _convolution(call: Call) -> Any:
    tf, value, kernel = call.tf, call.tensor(0), call.tensor(1)
    dims = value.shape.rank - 2
    shape = sizes(kernel)[2:]
    strides = list(call.get("strides") or [1] * dims)
    dilations = list(call.get("dilations") or [1] * dims)
    pads = _pads(call, dims)
    groups = call.get("group", 1)
    window = (shape, strides, dilations, pads)
    space = _fitting(sizes(value)[2:], window)
    if groups == sizes(value)[1] and math.prod(shape) <= _MOST_TAPS:
        found = _depthwise(call, value, kernel, space, window)
    else:
        found = _xla().conv(
            value,
            kernel,
            strides,
            pads,
            [1] * dims,
            dilations,
            _numbers(dims),
            feature_group_count=groups,
        )
        # TensorFlow does not follow the shapes of XLA's own operations.
        found = tf.ensure_shape(found, [sizes(value)[0], sizes(kernel)[0], *space])
    if not call.has(2):
        return found
    return found + tf.reshape(call.tensor(2), [1, -1] + [1] * dims)


def _fitting(shape: Sequence[int], window: Any) -> list[int]:
    """How many windows fit, in each dimension."""
    return [
        (size + low + high - dilation * (kernel - 1) - 1) // stride + 1
        for size, kernel, stride, dilation, (low, high) in zip(shape, *window, strict=True)
    ]


def _window(call: Call, value: Any) -> tuple[list[int], list[int], list[int], list[Any]]:
    dims = value.shape.rank - 2
    kernel = list(call.get("kernel_shape"))
    strides = list(call.get("strides") or [1] * dims)
    dilations = list(call.get("dilations") or [1] * dims)
    pads = _pads(call, dims)
    if call.get("ceil_mode", 0):
        shape = sizes(value)[2:]
        for i, (low, high) in enumerate(pads):
            reach = dilations[i] * (kernel[i] - 1) + 1
            count = math.ceil((shape[i] + low + high - reach) / strides[i]) + 1
            # The last window may not start in the padding.
            if (count - 1) * strides[i] >= shape[i] + low:
                count -= 1
            pads[i] = (low, max(high, (count - 1) * strides[i] + reach - shape[i] - low))
    return kernel, strides, dilations, pads


def _reduce(call: Call, value: Any, start: Any, reducer: Any, window: Any) -> Any:
    kernel, strides, dilations, pads = window
    tf = call.tf
    spec = tf.TensorSpec([], value.dtype)
    compute = tf.function(reducer, autograph=False).get_concrete_function(spec, spec)
    found = _xla().reduce_window(
        value,
        tf.constant(start, value.dtype),
        compute,
        [1, 1, *kernel],
        [1, 1, *strides],
        window_dilations=[1, 1, *dilations],
        padding=[(0, 0), (0, 0), *pads],
    )
    shape = sizes(value)
    return tf.ensure_shape(found, [*shape[:2], *_fitting(shape[2:], window)])


@converts("MaxPool")
def _max_pool(call: Call) -> Any:
    if call.reads(1):
        call.refuse("its indices")
    tf, value = call.tf, call.tensor(0)
    least = -math.inf if value.dtype.is_floating else value.dtype.min

    def larger(one: Any, other: Any) -> Any:
        # XLA's maximum loses NaN in a window, though not element by element.
        return tf.where(tf.logical_or(one >= other, tf.not_equal(one, one)), one, other)

    return _reduce(call, value, least, larger, _window(call, value))


@converts("AveragePool")
def _average_pool(call: Call) -> Any:
    if call.get("count_include_pad", 0) and call.get("ceil_mode", 0):
        call.refuse("count_include_pad and ceil_mode")
    tf, value = call.tf, call.tensor(0)
    window = _window(call, value)
    full = wide(tf, value)
    total = _reduce(call, full, 0.0, tf.add, window)
    if call.get("count_include_pad", 0) or not any(map(any, window[3])):
        return tf.cast(total / math.prod(window[0]), value.dtype)
    ones = tf.ones([1, 1, *sizes(value)[2:]], full.dtype)
    return tf.cast(total / _reduce(call, ones, 0.0, tf.add, window), value.dtype)
