"""ONNX's convolutions, poolings and resizing, in XLA's own terms.

TensorFlow's operations of these names have fewer layouts and paddings than XLA's, which they
become anyway.
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.tf_arithmetic import wide
from dynamo_ext.backends.tf_call import Call, operator, sizes

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


def _numbers(rank: int, *, swapped: bool) -> Any:
    """Which dimension is what: channels second, and a kernel's outputs first unless swapped."""
    from tensorflow.compiler.xla import xla_data_pb2

    space = list(range(2, rank))
    first, second = (1, 0) if swapped else (0, 1)
    return xla_data_pb2.ConvolutionDimensionNumbers(
        input_batch_dimension=0,
        input_feature_dimension=1,
        input_spatial_dimensions=space,
        kernel_output_feature_dimension=first,
        kernel_input_feature_dimension=second,
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


@operator("Conv", "ConvTranspose")
def _convolution(call: Call) -> Any:
    tf, value, kernel = call.tf, call.tensor(0), call.tensor(1)
    rank = value.shape.rank
    dims = rank - 2
    window = sizes(kernel)[2:]
    strides = list(call.get("strides") or [1] * dims)
    dilations = list(call.get("dilations") or [1] * dims)
    pads = _pads(call, dims)
    groups = call.get("group", 1)
    stretched = [1] * dims
    transposed = call.kind == "ConvTranspose"
    if transposed:
        if call.get("output_shape") is not None:
            call.refuse("output_shape")
        extra = list(call.get("output_padding") or [0] * dims)
        reach = [d * (k - 1) for d, k in zip(dilations, window, strict=True)]
        pads = [(r - a, r - b + e) for r, (a, b), e in zip(reach, pads, extra, strict=True)]
        stretched, strides = strides, stretched
        kernel = tf.reverse(kernel, list(range(2, rank)))
        if groups > 1:
            # (C, O/g, …) to (C/g, O, …), the groups of outputs side by side.
            inputs, each = sizes(kernel)[:2]
            kernel = tf.reshape(kernel, [groups, inputs // groups, each, *window])
            kernel = tf.transpose(kernel, [1, 0, 2, *range(3, rank + 1)])
            kernel = tf.reshape(kernel, [inputs // groups, groups * each, *window])
    space = _fitting(
        [s * (n - 1) + 1 for s, n in zip(stretched, sizes(value)[2:], strict=True)],
        (window, strides, dilations, pads),
    )
    if not transposed and groups == sizes(value)[1] and math.prod(window) <= _MOST_TAPS:
        found = _depthwise(call, value, kernel, space, (window, strides, dilations, pads))
    else:
        outputs = sizes(kernel)[1 if transposed else 0]
        numbers = _numbers(rank, swapped=transposed)
        found = _xla().conv(
            value,
            kernel,
            strides,
            pads,
            stretched,
            dilations,
            numbers,
            feature_group_count=groups,
        )
        # TensorFlow does not follow the shapes of XLA's own operations.
        found = tf.ensure_shape(found, [sizes(value)[0], outputs, *space])
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


@operator("MaxPool")
def _max_pool(call: Call) -> Any:
    if call.reads(1):
        call.refuse("its indices")
    tf, value = call.tf, call.tensor(0)
    least = -math.inf if value.dtype.is_floating else value.dtype.min

    def larger(one: Any, other: Any) -> Any:
        # XLA's maximum loses NaN in a window, though not element by element.
        return tf.where(tf.logical_or(one >= other, tf.not_equal(one, one)), one, other)

    return _reduce(call, value, least, larger, _window(call, value))


@operator("AveragePool")
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


@operator("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(call: Call) -> Any:
    value = call.tensor(0)
    function = call.tf.reduce_mean if call.kind == "GlobalAveragePool" else call.tf.reduce_max
    return function(value, axis=list(range(2, value.shape.rank)), keepdims=True)


@operator("Resize")
def _resize(call: Call) -> Any:
    mode = call.get("mode", "nearest")
    if mode not in ("nearest", "linear") or call.get("antialias", 0) or call.get("axes"):
        call.refuse(f"mode {mode}")
    value = call.tensor(0)
    shape = sizes(value)
    if call.has(3):
        target = call.known(3)
        scales = [new / old for new, old in zip(target, shape, strict=True)]
    else:
        scales = call.known(2)
        target = [math.floor(old * scale) for old, scale in zip(shape, scales, strict=True)]
    for axis, (old, new, scale) in enumerate(zip(shape, target, scales, strict=True)):
        if old != new:
            value = _resize_axis(
                call, value, axis, [_source(call, i, old, new, scale) for i in range(new)]
            )
    return value


def _source(call: Call, place: int, old: int, new: int, scale: float) -> float:
    """Where in the former axis a place of the new one comes from."""
    how = call.get("coordinate_transformation_mode", "half_pixel")
    if how == "align_corners":
        return place * (old - 1) / (new - 1) if new > 1 else 0.0
    if how == "asymmetric":
        return place / scale
    if how == "half_pixel" or (how == "pytorch_half_pixel" and new > 1):
        return (place + 0.5) / scale - 0.5
    if how != "pytorch_half_pixel":
        call.refuse(how)
    return 0.0


def _resize_axis(call: Call, value: Any, axis: int, places: Sequence[float]) -> Any:
    tf, last = call.tf, sizes(value)[axis] - 1
    if call.get("mode", "nearest") == "nearest":
        rule = call.get("nearest_mode", "round_prefer_floor")
        rules = {
            "floor": math.floor,
            "ceil": math.ceil,
            "round_prefer_floor": lambda p: math.ceil(p - 0.5),
            "round_prefer_ceil": lambda p: math.floor(p + 0.5),
        }
        return tf.gather(value, [min(max(rules[rule](p), 0), last) for p in places], axis=axis)
    inside = [min(max(p, 0.0), float(last)) for p in places]
    low = [math.floor(p) for p in inside]
    high = [min(p + 1, last) for p in low]
    shape = [1] * value.shape.rank
    shape[axis] = len(places)
    share = tf.reshape(tf.constant([p - q for p, q in zip(inside, low, strict=True)]), shape)
    share = tf.cast(share, value.dtype)
    return (
        tf.gather(value, low, axis=axis) * (1 - share) + tf.gather(value, high, axis=axis) * share
    )
