"""An ``onnx_ir`` model, operation by operation, as TensorFlow's.

Entries of the table take a node's inputs by position and its attributes by name. What the models of
the benchmarks need is there; other operations, inputs and attributes are refused.
"""

import functools
import inspect
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import numpy as np
import onnx_ir
import tensorflow as tf
from tensorflow.compiler.tf2xla.python import xla
from tensorflow.compiler.xla import xla_data_pb2

from dynamo_ext.backends.base import LoweringError

_MOST_TAPS = 64
"""Places in a window up to which the work at each of them is written out."""

_CONSTANTS = {"axes", "ends", "pads", "shape", "sizes", "starts", "steps"}
"""Parameters in the table that are lists of numbers, also where ONNX has an input for them."""

_DEFAULTS = {
    "alpha": 1.0, "auto_pad": "NOTSET", "batch_dims": 0, "beta": 1.0, "ceil_mode": 0,
    "exclusive": 0, "mode": "constant", "noop_with_empty_axes": 0, "reduction": "none",
    "reverse": 0, "round_mode": "up", "saturate": 1, "storage_order": 0,
}  # fmt: skip
"""Attributes that an entry need not have where they have these values."""


def _refuse(what: str) -> NoReturn:
    message = f"{what} is not converted to TensorFlow."
    raise LoweringError(message)


def _reduction(reduce: Callable[..., Any]) -> Callable[..., Any]:
    return lambda value, axes=None, keepdims=1: reduce(value, axes or None, bool(keepdims))


def _slice(value: Any, starts: Any, ends: Any, axes: Any = None, steps: Any = None) -> Any:
    axes, steps = axes or range(len(starts)), steps or [1] * len(starts)
    cuts = [slice(None)] * value.shape.rank
    for first, last, axis, step in zip(starts, ends, axes, steps, strict=True):
        # Python resolves bounds beyond the ends as ONNX does; a negative step may end before 0.
        start, stop, _ = slice(first, last, step).indices(value.shape[axis])
        cuts[axis] = slice(start, None if stop < 0 else stop, step)
    return value[tuple(cuts)]


def _pad(value: Any, pads: Any, filler: Any, axes: Any = None) -> Any:
    ends = np.zeros((2, value.shape.rank), int)
    ends[:, axes or slice(None)] = np.reshape(pads, (2, -1))
    # TensorFlow's own has no negative padding, which cuts off.
    return xla.pad(value, tf.reshape(filler, []), *ends, [0] * value.shape.rank)


def _places(indices: Any, sizes: Any) -> Any:
    """Indices, the negative ones counted from the end."""
    return tf.where(indices < 0, indices + sizes, indices)


def _along(indices: Any, value: Any, axis: int) -> Any:
    """For indices along one axis of a tensor: all the coordinates of each element."""
    grid = tf.meshgrid(*(tf.range(n, dtype=indices.dtype) for n in indices.shape), indexing="ij")
    grid[axis] = _places(indices, value.shape[axis])
    return tf.stack(grid, axis=-1)


def _scatter(value: Any, where: Any, updates: Any, reduction: str) -> Any:
    ways = {"none": tf.tensor_scatter_nd_update, "add": tf.tensor_scatter_nd_add}
    way = ways.get(reduction) or _refuse(f"A scatter with reduction {reduction}")
    return way(value, where, updates)


def _taps(value: Any, filler: float, shape: Any, window: Any) -> Iterator[Any]:
    """For each place in a window, what all windows have there."""
    strides, dilations, pads = window
    padded = tf.pad(value, [(0, 0), (0, 0), *np.reshape(pads, (2, -1)).T], constant_values=filler)
    facts = zip(padded.shape[2:], shape, strides, dilations, strict=True)
    cuts = [
        [slice(at * dilation, size - (kernel - 1 - at) * dilation, stride) for at in range(kernel)]
        for size, kernel, stride, dilation in facts
    ]
    yield from (padded[(..., *cut)] for cut in itertools.product(*cuts))


def _conv(  # noqa: PLR0913 - ONNX's attributes
    value: Any, kernel: Any, bias: Any = None, *,
    group: int, kernel_shape: Any, strides: Any, dilations: Any, pads: Any,
) -> Any:  # fmt: skip
    count, ones, window = kernel.shape[0], [1] * len(strides), (strides, dilations, pads)
    if group == value.shape[1] and math.prod(kernel_shape) <= _MOST_TAPS:
        # XLA's own on the CPU took ninety times torch's time; it makes one loop of such a sum.
        # torch computes what half precision gives in float32.
        full = tf.float32 if value.dtype in (tf.float16, tf.bfloat16) else value.dtype
        spread = tf.cast(tf.repeat(value, count // group, axis=1), full)
        factors = tf.reshape(tf.cast(kernel, full), [1, count, -1, *ones])
        taps = enumerate(_taps(spread, 0, kernel_shape, window))
        result = tf.cast(tf.add_n([tap * factors[:, :, at] for at, tap in taps]), value.dtype)
    else:
        space = range(2, len(ones) + 2)
        # Batches and a kernel's outputs come first, which is the default.
        numbers = xla_data_pb2.ConvolutionDimensionNumbers(
            input_feature_dimension=1, kernel_input_feature_dimension=1,
            output_feature_dimension=1, input_spatial_dimensions=space,
            kernel_spatial_dimensions=space, output_spatial_dimensions=space,
        )  # fmt: skip
        ends = np.reshape(pads, (2, -1)).T.tolist()
        result = xla.conv(value, kernel, strides, ends, ones, dilations, numbers, group)
        # TensorFlow does not follow the shapes of XLA's convolution; a tap has as many places.
        sizes = next(_taps(value, 0, kernel_shape, window)).shape[2:]
        result = tf.ensure_shape(result, [value.shape[0], count, *sizes])
    return result if bias is None else result + tf.reshape(bias, [1, -1, *ones])


def _max_pool(value: Any, *, kernel_shape: Any, strides: Any, dilations: Any, pads: Any) -> Any:
    if math.prod(kernel_shape) > _MOST_TAPS:
        _refuse("MaxPool with a large window")
    least = value.dtype.min if value.dtype.is_integer else -math.inf
    # XLA's maximum loses NaN here.
    return functools.reduce(
        lambda one, other: tf.where((one >= other) | tf.not_equal(one, one), one, other),
        _taps(value, least, kernel_shape, (strides, dilations, pads)),
    )


_TABLE: dict[str, Any] = {
    "Abs": tf.abs, "Add": tf.add, "And": tf.logical_and, "Conv": _conv, "Cos": tf.cos,
    "Equal": tf.equal, "Erf": tf.math.erf, "Exp": tf.exp, "Floor": tf.floor,
    "Greater": tf.greater, "GreaterOrEqual": tf.greater_equal, "Identity": tf.identity,
    "IsNaN": tf.math.is_nan, "Less": tf.less, "LessOrEqual": tf.less_equal, "Log": tf.math.log,
    "MatMul": tf.matmul, "MaxPool": _max_pool, "Mul": tf.multiply, "Neg": tf.negative,
    "Not": tf.logical_not, "Or": tf.logical_or, "Pad": _pad, "Pow": tf.pow,
    "Reciprocal": tf.math.reciprocal, "ReduceMax": _reduction(tf.reduce_max),
    "ReduceMean": _reduction(tf.reduce_mean), "ReduceMin": _reduction(tf.reduce_min),
    "ReduceSum": _reduction(tf.reduce_sum), "Relu": tf.nn.relu, "Sigmoid": tf.sigmoid,
    "Sign": tf.sign, "Sin": tf.sin, "Slice": _slice, "Softplus": tf.nn.softplus,
    "Sqrt": tf.sqrt, "Sub": tf.subtract, "Tanh": tf.tanh, "Where": tf.where,
    "Cast": lambda x, to: tf.cast(x, tf.as_dtype(onnx_ir.DataType(to).numpy())),
    "Clip": lambda x, least=None, most=None: tf.minimum(
        y := x if least is None else tf.maximum(x, least), y if most is None else most),
    "Concat": lambda *values, axis: tf.concat(values, axis),
    "ConstantOfShape": lambda shape, value=None:
        tf.fill(shape, 0.0 if value is None else value.numpy().reshape(())),
    "CumSum": lambda x, axes: tf.cumsum(x, *axes),
    "Div": lambda x, y: tf.truncatediv(x, y) if x.dtype.is_integer else tf.divide(x, y),
    "Expand": lambda x, shape: tf.broadcast_to(x, np.broadcast_shapes((*x.shape,), (*shape,))),
    "Gather": lambda x, at, axis=0: tf.gather(x, _places(at, x.shape[axis]), axis=axis),
    "GatherElements": lambda x, at, axis=0: tf.gather_nd(x, _along(at, x, axis)),
    "GatherND": lambda x, at: tf.gather_nd(x, _places(at, x.shape[: at.shape[-1]])),
    "Gemm": lambda x, y, *bias, transA=0, transB=0:  # noqa: N803 - ONNX's names
        functools.reduce(tf.add, bias, tf.matmul(x, y, bool(transA), bool(transB))),
    "Max": lambda *values: functools.reduce(tf.maximum, values),
    "Min": lambda *values: functools.reduce(tf.minimum, values),
    "Mod": lambda x, y, fmod=0: (tf.truncatemod if fmod else tf.math.floormod)(x, y),
    "Reshape": lambda x, shape, allowzero=0: tf.reshape(
        x, [n or (0 if allowzero else x.shape[place]) for place, n in enumerate(shape)]),
    "ScatterElements": lambda x, at, updates, axis=0, reduction="none":
        _scatter(x, _along(at, x, axis), updates, reduction),
    "ScatterND": lambda x, at, updates, reduction="none":
        _scatter(x, _places(at, x.shape[: at.shape[-1]]), updates, reduction),
    "Softmax": lambda x, axis=-1: tf.nn.softmax(x, axis),
    "Split": lambda x, sizes=0, axis=0, num_outputs=0: tf.split(x, sizes or num_outputs, axis),
    "Squeeze": lambda x, axes=None: tf.squeeze(x, axes),
    "Transpose": lambda x, perm=None: tf.transpose(x, perm),
    "Unsqueeze": lambda x, axes: functools.reduce(
        tf.expand_dims, sorted(axis % (x.shape.rank + len(axes)) for axis in axes), x),
}  # fmt: skip


def evaluate(model: Any, constants: Mapping[str, Any], *inputs: Any) -> list[Any]:
    """A model's outputs for its inputs, while TensorFlow traces.

    ``model`` is an ``onnx_ir.Model`` of fixed shapes. ``constants`` has its initializers by name.
    Raises ``LoweringError`` for an operation that the table does not have, or not in this form.
    """
    initializers = model.graph.initializers.items()
    values = {value: tf.convert_to_tensor(constants[name]) for name, value in initializers}
    values |= {None: None, **dict(zip(model.graph.inputs, inputs, strict=True))}
    for node in model.graph:
        results = _results(node, [values[value] for value in node.inputs])
        values.update(zip(node.outputs, results, strict=True))
    return [values[value] for value in model.graph.outputs]


def _results(node: Any, inputs: Sequence[Any]) -> Sequence[Any]:
    kind = f"{node.domain}::{node.op_type}".removeprefix("::")
    function = _TABLE.get(kind) or _refuse(f"ONNX's {kind}")
    attributes = {name: attribute.value for name, attribute in node.attributes.items()}
    given = {name: value for name, value in attributes.items() if value != _DEFAULTS.get(name)}
    try:
        call = inspect.signature(function).bind(*inputs, **given)
    except TypeError:
        _refuse(f"{kind} with {', '.join(f'{name} {value}' for name, value in given.items())}")
    for name in _CONSTANTS & call.arguments.keys():
        if tf.is_tensor(call.arguments[name]):
            constant = tf.get_static_value(call.arguments[name])
            if constant is None:
                _refuse(f"{kind} whose {name} are not constants")
            call.arguments[name] = constant.reshape(-1).tolist()
    result = function(*call.args, **call.kwargs)
    results = result if isinstance(result, (list, tuple)) else [result]
    return results if len(results) == len(node.outputs) else _refuse(f"{kind} with more results")
