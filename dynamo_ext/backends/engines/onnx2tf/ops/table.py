"""An ``onnx_ir`` model, operation by operation, as TensorFlow's.

The table has what the models of the benchmarks need; a part with any other operation is refused.
"""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dynamo_ext.backends.base import LoweringError
from dynamo_ext.backends.engines.onnx2tf.ops import conv_pool, data_movement
from dynamo_ext.backends.engines.onnx2tf.ops.onnx_node import TABLE, Call, converts, wide

_STANDARD = ("", "ai.onnx")
_FILLED_BY = (data_movement, conv_pool)
_BY_ELEMENT = {
    "Abs": "abs",
    "Cos": "cos",
    "Erf": "math.erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "math.is_nan",
    "Log": "math.log",
    "Neg": "negative",
    "Not": "logical_not",
    "Reciprocal": "math.reciprocal",
    "Relu": "nn.relu",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Softplus": "nn.softplus",
    "Sqrt": "sqrt",
    "Tanh": "tanh",
    "Identity": "identity",
    "Add": "add",
    "And": "logical_and",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Or": "logical_or",
    "Pow": "pow",
    "Sub": "subtract",
    "Where": "where",
}
_REDUCTIONS = {
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceSum": "reduce_sum",
}


def _all(call: Call) -> list[Any]:
    return [call.tensor(position) for position in range(len(call.inputs))]


def _by_element(path: str) -> Callable[[Call], Any]:
    return lambda call: operator.attrgetter(path)(call.tf)(*_all(call))


def _reduction(name: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        value, axes = call.tensor(0), call.known(1)
        if not axes and call.get("noop_with_empty_axes", 0):
            return value
        keepdims = bool(call.get("keepdims", 1))
        return getattr(call.tf, name)(value, axis=axes or None, keepdims=keepdims)

    return run


TABLE.update({kind: _by_element(path) for kind, path in _BY_ELEMENT.items()})
TABLE.update({kind: _reduction(name) for kind, name in _REDUCTIONS.items()})
TABLE.update(
    {
        "Max": lambda call: functools.reduce(call.tf.maximum, _all(call)),
        "Min": lambda call: functools.reduce(call.tf.minimum, _all(call)),
        "Concat": lambda call: call.tf.concat(_all(call), call.get("axis")),
        "CumSum": lambda call: call.tf.cumsum(call.tensor(0), *call.known(1)),
        "MatMul": lambda call: call.tf.matmul(call.tensor(0), call.tensor(1)),
        "Softmax": lambda call: call.tf.nn.softmax(call.tensor(0), call.get("axis", -1)),
        "Squeeze": lambda call: call.tf.squeeze(call.tensor(0), call.known(1)),
        "Transpose": lambda call: call.tf.transpose(call.tensor(0), call.get("perm")),
    }
)


@converts("Div", "Mod")
def _divide(call: Call) -> Any:
    tf, left, right = call.tf, call.tensor(0), call.tensor(1)
    whole = left.dtype.is_integer
    if call.kind == "Mod":
        return tf.truncatemod(left, right) if call.get("fmod", 0) else tf.math.floormod(left, right)
    return tf.truncatediv(left, right) if whole else tf.divide(left, right)


@converts("Clip")
def _clip(call: Call) -> Any:
    value = call.tensor(0)
    if call.has(1):
        value = call.tf.maximum(value, call.tensor(1))
    return call.tf.minimum(value, call.tensor(2)) if call.has(2) else value


@converts("Gemm")
def _affine(call: Call) -> Any:
    tf, left = call.tf, call.tensor(0)
    found = tf.matmul(
        left,
        call.tensor(1),
        transpose_a=bool(call.get("transA", 0)),
        transpose_b=bool(call.get("transB", 0)),
    )
    alpha, beta = call.get("alpha", 1.0), call.get("beta", 1.0)
    found = found if alpha == 1 else found * tf.cast(alpha, left.dtype)
    if not call.has(2) or beta == 0:
        return found
    bias = call.tensor(2)
    return found + (bias if beta == 1 else bias * tf.cast(beta, left.dtype))


@converts("LayerNormalization")
def _layer_norm(call: Call) -> Any:
    if call.reads(1) or call.reads(2):
        call.refuse("its statistics")
    tf, value = call.tf, call.tensor(0)
    rank = value.shape.rank
    axes = list(range(call.get("axis", -1) % rank, rank))
    full = wide(tf, value)
    mean = tf.reduce_mean(full, axis=axes, keepdims=True)
    variance = tf.reduce_mean(tf.square(full - mean), axis=axes, keepdims=True)
    epsilon = tf.cast(call.get("epsilon", 1e-5), full.dtype)
    found = (full - mean) * tf.math.rsqrt(variance + epsilon)
    found = found * tf.cast(call.tensor(1), found.dtype)
    found = found + tf.cast(call.tensor(2), found.dtype) if call.has(2) else found
    return tf.cast(found, value.dtype)


def evaluate(tf: Any, model: Any, constants: Mapping[str, Any], inputs: Sequence[Any]) -> list[Any]:
    """A model's outputs for its inputs, while TensorFlow traces.

    ``model`` is an ``onnx_ir.Model`` of fixed shapes. ``constants`` has its initializers by name:
    numpy arrays and TensorFlow tensors.

    Raises ``LoweringError`` for an operation that the table does not have, or not in this form.
    """
    kinds = {_kind(node) for node in model.graph}
    unknown = sorted(kinds - TABLE.keys())
    if unknown:
        message = f"No TensorFlow operation is known for ONNX's {', '.join(unknown)}."
        raise LoweringError(message)
    values: dict[Any, Any] = {None: None}
    for value in model.graph.initializers.values():
        values[value] = constants[value.name]
    values.update(zip(model.graph.inputs, inputs, strict=True))
    for node in model.graph:
        call = Call(
            tf,
            node.op_type,
            [values[value] for value in node.inputs],
            {name: _plain(attribute.value) for name, attribute in node.attributes.items()},
            [bool(value.uses()) or value.is_graph_output() for value in node.outputs],
        )
        found = TABLE[_kind(node)](call)
        several = found if isinstance(found, (list, tuple)) else [found]
        values.update(zip(node.outputs, several, strict=False))
    return [tf.convert_to_tensor(values[value]) for value in model.graph.outputs]


def _plain(value: Any) -> Any:
    return value.numpy() if hasattr(value, "numpy") and hasattr(value, "dtype") else value


def _kind(node: Any) -> str:
    return str(node.op_type if node.domain in _STANDARD else f"{node.domain}::{node.op_type}")
