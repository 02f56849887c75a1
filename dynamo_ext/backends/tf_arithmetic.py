"""ONNX's element by element operations, reductions and products, in TensorFlow."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.tf_call import TABLE, Call, operator

if TYPE_CHECKING:
    from collections.abc import Callable

_UNARY = {
    "Abs": "abs",
    "Acos": "acos",
    "Acosh": "acosh",
    "Asin": "asin",
    "Asinh": "asinh",
    "Atan": "atan",
    "Atanh": "atanh",
    "Ceil": "math.ceil",
    "Cos": "cos",
    "Cosh": "cosh",
    "Elu": "nn.elu",
    "Erf": "math.erf",
    "Exp": "exp",
    "Floor": "floor",
    "IsNaN": "math.is_nan",
    "Log": "math.log",
    "Neg": "negative",
    "Not": "logical_not",
    "BitwiseNot": "bitwise.invert",
    "Reciprocal": "math.reciprocal",
    "Relu": "nn.relu",
    "Round": "round",
    "Sigmoid": "sigmoid",
    "Sign": "sign",
    "Sin": "sin",
    "Sinh": "sinh",
    "Softplus": "nn.softplus",
    "Softsign": "nn.softsign",
    "Sqrt": "sqrt",
    "Tan": "tan",
    "Tanh": "tanh",
    "Identity": "identity",
}
_BINARY = {
    "Add": "add",
    "And": "logical_and",
    "BitwiseAnd": "bitwise.bitwise_and",
    "BitwiseOr": "bitwise.bitwise_or",
    "BitwiseXor": "bitwise.bitwise_xor",
    "Equal": "equal",
    "Greater": "greater",
    "GreaterOrEqual": "greater_equal",
    "Less": "less",
    "LessOrEqual": "less_equal",
    "Mul": "multiply",
    "Or": "logical_or",
    "Pow": "pow",
    "Sub": "subtract",
    "Xor": "math.logical_xor",
}
_VARIADIC = {"Max": "maximum", "Min": "minimum", "Sum": "add"}
_REDUCTIONS = {
    "ReduceLogSumExp": "reduce_logsumexp",
    "ReduceMax": "reduce_max",
    "ReduceMean": "reduce_mean",
    "ReduceMin": "reduce_min",
    "ReduceProd": "reduce_prod",
    "ReduceSum": "reduce_sum",
}


def _find(tf: Any, path: str) -> Any:
    for name in path.split("."):
        tf = getattr(tf, name)
    return tf


def _plain(path: str, count: int) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        return _find(call.tf, path)(*(call.tensor(i) for i in range(count)))

    return run


def _variadic(path: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        values = [call.tensor(i) for i in range(len(call.inputs))]
        return functools.reduce(_find(call.tf, path), values)

    return run


def _reduction(path: str) -> Callable[[Call], Any]:
    def run(call: Call) -> Any:
        return _reduced(call, _find(call.tf, path), call.tensor(0))

    return run


def _reduced(call: Call, function: Callable[..., Any], value: Any) -> Any:
    axes = call.axes(1)
    if not axes and call.get("noop_with_empty_axes", 0):
        return value
    return function(value, axis=axes or None, keepdims=bool(call.get("keepdims", 1)))


TABLE.update({kind: _plain(path, 1) for kind, path in _UNARY.items()})
TABLE.update({kind: _plain(path, 2) for kind, path in _BINARY.items()})
TABLE.update({kind: _variadic(path) for kind, path in _VARIADIC.items()})
TABLE.update({kind: _reduction(path) for kind, path in _REDUCTIONS.items()})


@operator("ReduceL1", "ReduceL2", "ReduceSumSquare")
def _norm(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    value = tf.abs(value) if call.kind == "ReduceL1" else tf.square(value)
    total = _reduced(call, tf.reduce_sum, value)
    return tf.sqrt(total) if call.kind == "ReduceL2" else total


def wide(tf: Any, value: Any) -> Any:
    """A value in float32 at least, in which torch computes what half precision gives."""
    return tf.cast(value, tf.float32) if value.dtype.size < 4 else value  # noqa: PLR2004


def _integral(value: Any) -> bool:
    return bool(value.dtype.is_integer)


def _watch_divisor(call: Call, divisor: Any) -> None:
    if _integral(divisor):
        call.alarms.append(call.tf.reduce_any(call.tf.equal(divisor, 0)))


@operator("Div")
def _divide(call: Call) -> Any:
    left, right = call.tensor(0), call.tensor(1)
    _watch_divisor(call, right)
    if _integral(left):
        return call.tf.truncatediv(left, right)
    return call.tf.divide(left, right)


@operator("Mod")
def _modulo(call: Call) -> Any:
    left, right = call.tensor(0), call.tensor(1)
    _watch_divisor(call, right)
    if call.get("fmod", 0):
        return call.tf.truncatemod(left, right)
    return call.tf.math.floormod(left, right)


@operator("BitShift")
def _shift(call: Call) -> Any:
    bitwise = call.tf.bitwise
    move = bitwise.left_shift if call.get("direction") == "LEFT" else bitwise.right_shift
    return move(call.tensor(0), call.tensor(1))


@operator("Clip")
def _clip(call: Call) -> Any:
    value = call.tensor(0)
    if call.has(1):
        value = call.tf.maximum(value, call.tensor(1))
    return call.tf.minimum(value, call.tensor(2)) if call.has(2) else value


@operator("IsInf")
def _is_infinite(call: Call) -> Any:
    if not (call.get("detect_negative", 1) and call.get("detect_positive", 1)):
        call.refuse("one sign")
    return call.tf.math.is_inf(call.tensor(0))


@operator("Where")
def _where(call: Call) -> Any:
    return call.tf.where(call.tensor(0), call.tensor(1), call.tensor(2))


@operator("Gelu")
def _gelu(call: Call) -> Any:
    # As torch writes it, which gives NaN for minus infinity; TensorFlow's own gives zero.
    tf, value = call.tf, wide(call.tf, call.tensor(0))
    if call.get("approximate", "none") == "tanh":
        inner = tf.tanh(math.sqrt(2 / math.pi) * (value + 0.044715 * value * value * value))
    else:
        inner = tf.math.erf(value * math.sqrt(0.5))
    return tf.cast(0.5 * value * (1 + inner), call.tensor(0).dtype)


@operator("LeakyRelu", "PRelu")
def _leaky(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    slope = (
        call.tensor(1) if call.kind == "PRelu" else tf.cast(call.get("alpha", 0.01), value.dtype)
    )
    return tf.where(value >= 0, value, value * slope)


@operator("HardSigmoid", "HardSwish")
def _hard(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    swish = call.kind == "HardSwish"
    alpha = 1 / 6 if swish else call.get("alpha", 0.2)
    beta = 0.5 if swish else call.get("beta", 0.5)
    gate = value * tf.cast(alpha, value.dtype) + tf.cast(beta, value.dtype)
    gate = tf.minimum(tf.maximum(gate, tf.cast(0, value.dtype)), tf.cast(1, value.dtype))
    return value * gate if swish else gate


@operator("Mish")
def _mish(call: Call) -> Any:
    value = call.tensor(0)
    return value * call.tf.tanh(call.tf.nn.softplus(value))


@operator("Softmax", "LogSoftmax")
def _softmax(call: Call) -> Any:
    tf, value = call.tf, call.tensor(0)
    function = tf.nn.softmax if call.kind == "Softmax" else tf.nn.log_softmax
    return function(value, axis=call.get("axis", -1))


@operator("ArgMax", "ArgMin")
def _extreme_place(call: Call) -> Any:
    if call.get("select_last_index", 0):
        call.refuse("the last index")
    tf, value, axis = call.tf, call.tensor(0), call.get("axis", 0)
    find = tf.argmax if call.kind == "ArgMax" else tf.argmin
    found = find(value, axis=axis, output_type=tf.int64)
    return tf.expand_dims(found, axis) if call.get("keepdims", 1) else found


@operator("CumSum")
def _cumulative(call: Call) -> Any:
    (axis,) = call.known(1)
    exclusive, reverse = bool(call.get("exclusive", 0)), bool(call.get("reverse", 0))
    return call.tf.cumsum(call.tensor(0), axis, exclusive=exclusive, reverse=reverse)


@operator("MatMul")
def _product(call: Call) -> Any:
    tf, left, right = call.tf, call.tensor(0), call.tensor(1)
    row, column = left.shape.rank == 1, right.shape.rank == 1
    left = tf.expand_dims(left, 0) if row else left
    right = tf.expand_dims(right, 1) if column else right
    found = tf.matmul(left, right)
    found = tf.squeeze(found, -1) if column else found
    return tf.squeeze(found, -1 if column else -2) if row else found


@operator("Gemm")
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


@operator("Einsum")
def _einsum(call: Call) -> Any:
    values = [call.tensor(i) for i in range(len(call.inputs))]
    return call.tf.einsum(call.get("equation"), *values)
