"""ONNX's convolutions and poolings: XLA's own convolution, and sums and maxima over a window."""

import functools
import itertools
import math
import operator
from collections.abc import Iterator
from typing import Any

from dynamo_ext.backends.engines.onnx2tf.ops.onnx_node import Call, converts, sizes, wide

_MOST_TAPS = 64
"""Places in a window up to which the work at each of them is written out."""


class _Window:
    """What a convolution or a pooling reads for each of its results."""

    def __init__(self, call: Call, value: Any, shape: list[int]) -> None:
        if call.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
            call.refuse(f"auto_pad {call.get('auto_pad')}")
        dims = len(shape)
        self.shape = shape
        self.strides = list(call.get("strides") or [1] * dims)
        self.dilations = list(call.get("dilations") or [1] * dims)
        ends = list(call.get("pads") or [0] * (2 * dims))
        self.pads = list(zip(ends[:dims], ends[dims:], strict=True))
        self.results: list[int] = []
        facts = zip(sizes(value)[2:], shape, self.strides, self.dilations, strict=True)
        for place, (size, kernel, stride, dilation) in enumerate(facts):
            low, high = self.pads[place]
            reach = dilation * (kernel - 1) + 1
            rounding = stride - 1 if call.get("ceil_mode", 0) else 0
            count = (size + low + high - reach + rounding) // stride + 1
            # Rounded up, the last window may not start in the padding.
            if rounding and (count - 1) * stride >= size + low:
                count -= 1
            self.pads[place] = (low, max(high, (count - 1) * stride + reach - size - low))
            self.results.append(count)

    def taps(self, tf: Any, value: Any, filler: float) -> Iterator[Any]:
        """For each place in the window, what all windows have there."""
        padded = tf.pad(value, [(0, 0), (0, 0), *self.pads], constant_values=filler)
        for place in itertools.product(*map(range, self.shape)):
            cut = [slice(None), slice(None)]
            for at, step, dilation, count in zip(
                place, self.strides, self.dilations, self.results, strict=True
            ):
                first = at * dilation
                cut.append(slice(first, first + (count - 1) * step + 1, step))
            yield padded[tuple(cut)]


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


def _depthwise(call: Call, value: Any, kernel: Any, window: _Window) -> Any:
    """A convolution of each channel by itself: a sum over the kernel's places.

    XLA's own on the CPU took ninety times torch's time; it makes one loop of such a sum.
    """
    tf = call.tf
    each = sizes(kernel)[0] // sizes(value)[1]
    # Before padding, so that a stretch of channels lies as the kernel's outputs do.
    spread = tf.repeat(value, each, axis=1) if each > 1 else value
    factors = tf.reshape(wide(tf, kernel), [sizes(kernel)[0], math.prod(window.shape)])
    terms = [
        tap * tf.reshape(factors[:, number], [1, -1] + [1] * len(window.shape))
        for number, tap in enumerate(window.taps(tf, wide(tf, spread), 0))
    ]
    return tf.cast(functools.reduce(operator.add, terms), value.dtype)


@converts("Conv")
def _convolution(call: Call) -> Any:
    from tensorflow.compiler.tf2xla.python import xla

    tf, value, kernel = call.tf, call.tensor(0), call.tensor(1)
    dims = value.shape.rank - 2
    groups = call.get("group", 1)
    window = _Window(call, value, sizes(kernel)[2:])
    if groups == sizes(value)[1] and math.prod(window.shape) <= _MOST_TAPS:
        found = _depthwise(call, value, kernel, window)
    else:
        found = xla.conv(
            value,
            kernel,
            window.strides,
            window.pads,
            [1] * dims,
            window.dilations,
            _numbers(dims),
            feature_group_count=groups,
        )
        # TensorFlow does not follow the shapes of XLA's own operations.
        found = tf.ensure_shape(found, [sizes(value)[0], sizes(kernel)[0], *window.results])
    if not call.has(2):
        return found
    return found + tf.reshape(call.tensor(2), [1, -1] + [1] * dims)


@converts("MaxPool")
def _max_pool(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    window = _Window(call, value, list(call.get("kernel_shape")))
    if call.reads(1) or math.prod(window.shape) > _MOST_TAPS:
        call.refuse("its indices, or a large window")
    least = value.dtype.min if value.dtype.is_integer else -math.inf
    first, *others = window.taps(tf, value, least)

    def larger(one: Any, other: Any) -> Any:
        # XLA's maximum loses NaN here.
        return tf.where(tf.logical_or(one >= other, tf.not_equal(one, one)), one, other)

    return functools.reduce(larger, others, first)
