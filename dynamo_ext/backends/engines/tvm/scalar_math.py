"""Scalar formulas in TIR that hand on NaN and infinity as torch does, and that vectorise.

LLVM has no vector form of ``exp`` or ``erf`` without a library of them, and calls the scalar one
for each element; written out as arithmetic they run sixteen at a time.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any


def _tir() -> Any:
    from tvm import tirx

    return tirx


def kind(value: Any) -> str:
    """The dtype of a TIR expression, by name."""
    return str(value.ty.dtype)


def const(number: Any, dtype: str) -> Any:
    """A number as a TIR constant."""
    if dtype == "bool":
        return _tir().const(bool(number), "bool")
    return _tir().const(float(number) if dtype.startswith("float") else int(number), dtype)


def is_float(value: Any) -> bool:
    """Whether a TIR expression is a floating-point number."""
    return kind(value).startswith("float")


def zero(x: Any) -> Any:
    """Nought in the dtype of an expression."""
    return const(0, kind(x))


def one(x: Any) -> Any:
    """One in the dtype of an expression."""
    return const(1, kind(x))


def load(tensor: Any, index: Sequence[Any]) -> Any:
    """An element of a tensor that is broadcast to the rank and sizes of an index."""
    shape = tensor.shape
    own = list(index)[len(index) - len(shape) :]
    return tensor(*[0 if int(size) == 1 else i for size, i in zip(shape, own, strict=True)])


def scaled(x: Any, factor: Any) -> Any:
    """A TIR expression times a number."""
    return x if factor == 1 else x * const(factor, kind(x))


def at_most(index: Any, last: int) -> Any:
    """The lesser of an index and a number."""
    return _tir().Min(index, const(last, kind(index)))


def cast(value: Any, dtype: str) -> Any:
    """A value in another dtype, as torch converts it."""
    if kind(value) == dtype:
        return value
    if dtype == "bool":
        return _tir().NE(value, zero(value))
    return value.astype(dtype)


def named(name: str) -> Callable[..., Any]:
    """A function of TVM's scalar expressions, by name, looked up when it is called."""

    def formula(*operands: Any) -> Any:
        return getattr(_tir(), name)(*operands)

    return formula


is_nan = named("isnan")
"""Whether a float is not a number; ``x != x`` would be simplified to false."""

select = named("Select")
"""One of two values, both of which are computed."""


def maximum(left: Any, right: Any) -> Any:
    """The greater of two, and NaN where either is."""
    return _chosen(left > right, left, right)


def minimum(left: Any, right: Any) -> Any:
    """The lesser of two, and NaN where either is."""
    return _chosen(left < right, left, right)


def _chosen(condition: Any, left: Any, right: Any) -> Any:
    return select(_tir().Or(condition, is_nan(left)) if is_float(left) else condition, left, right)


def exp(x: Any) -> Any:
    """The exponential: range reduction by ln 2, then Taylor's series to the seventh power.

    Of ``|r| <= ln(2) / 2`` the rest of the series is below 1e-8 of the result. The power of two
    is multiplied in two steps, so that what overflows becomes infinite by itself.
    """
    tirx = _tir()
    if kind(x) != "float32":
        return tirx.exp(x)
    limited = tirx.Min(tirx.Max(x, -104.0), 89.0)
    whole = tirx.floor(limited * (1 / math.log(2)) + 0.5)
    # ln 2 in two parts, of which the first has few bits, so that the product is exact.
    rest = limited - whole * 0.693359375 - whole * (math.log(2) - 0.693359375)
    series = _polynomial(rest, [1 / math.factorial(power) for power in range(8)])
    steps = whole.astype("int32")
    half = steps >> 1
    return select(is_nan(x), x, series * _two_to(half) * _two_to(steps - half))


def expm1(x: Any) -> Any:
    """``exp(x) - 1``, by its series where that would cancel."""
    small = x * _polynomial(x, [1 / math.factorial(power) for power in range(1, 16)])
    return select(_tir().abs(x) < const(0.5, kind(x)), small, exp(x) - one(x))


def _two_to(power: Any) -> Any:
    return _tir().reinterpret("float32", (power + 127) << 23)


def sigmoid(x: Any) -> Any:
    """``1 / (1 + exp(-x))``."""
    return one(x) / (one(x) + exp(zero(x) - x))


def erf(x: Any) -> Any:
    """The error function: ``x`` times a quotient of two polynomials in ``x * x``.

    Its coefficients are a least squares fit on ``|x| < 3.9``, beyond which the result is one to
    within a unit in the last place; the largest error is 4e-7.
    """
    tirx = _tir()
    if kind(x) != "float32":
        return tirx.erf(x)
    limited = tirx.Min(tirx.Max(x, -_ERF_LIMIT), _ERF_LIMIT)
    square = limited * limited
    result = limited * _polynomial(square, _ERF_ABOVE) / _polynomial(square, _ERF_BELOW)
    return select(is_nan(x), x, result)


def _polynomial(x: Any, factors: Sequence[float]) -> Any:
    result = const(factors[-1], kind(x))
    for factor in factors[-2::-1]:
        result = result * x + const(factor, kind(x))
    return result


def tanh(x: Any) -> Any:
    """The hyperbolic tangent by way of ``exp``, and by its series where that would cancel."""
    tirx = _tir()
    if kind(x) != "float32":
        return tirx.tanh(x)
    size = tirx.abs(x)
    far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0)
    far = select(x < 0.0, 0.0 - far, far)
    near = x * _polynomial(x * x, _TANH)
    return select(size < const(0.4, "float32"), near, select(is_nan(x), x, far))


_TANH = (1.0, -1 / 3, 2 / 15, -17 / 315, 62 / 2835, -1382 / 155925, 21844 / 6081075)
"""The Taylor series of ``tanh(x) / x`` in ``x * x``: Bernoulli's numbers."""

_ERF_LIMIT = 3.9
_ERF_ABOVE = (
    1.12837918,
    0.184753911,
    0.0542939751,
    0.00383584262,
    0.000380807287,
    4.72724372e-06,
    -1.33851364e-08,
)
_ERF_BELOW = (1.0, 0.497067394, 0.113805076, 0.0154390884, 0.00130635534, 6.35126473e-05)
