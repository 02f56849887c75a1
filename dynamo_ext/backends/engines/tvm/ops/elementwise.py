"""Operators that compute each element by itself: arithmetic, functions, comparisons, copies."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    GraphConverter,
    Operation,
    converts,
    dtype_of,
    facts,
    load,
    refuse,
    shape_of,
)
from dynamo_ext.backends.engines.tvm.scalar_math import one, zero

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Formula = Callable[..., Any]

_OPERANDS = ("grad_output", "self", "other", "exponent", "tensor1", "tensor2")
"""Names of the arguments that formulas get, in the order of all operators' schemas."""


def elementwise(
    op: Operation, formula: Formula, operands: Sequence[Any] | None = None, *, inside: str = ""
) -> Any:
    """An operator whose result, by element, is ``formula`` of its broadcast operands.

    Parameters
    ----------
    op
        The operator.
    formula
        Takes TIR expressions, one for each operand, of one dtype.
    operands
        Nodes and numbers; by default the arguments that are.
    inside
        The dtype that operands are converted to; by default the result's.

    Notes
    -----
    Where an operand is a view of a matrix, the matrix is computed on, so that the operation can
    be fused with the product that made it.
    """
    inside = inside or op.dtype
    operands = op.given(*_OPERANDS) if operands is None else operands
    is_tensor = [hasattr(operand, "meta") for operand in operands]
    values = [op.graph.value(o) for o, tensor in zip(operands, is_tensor, strict=True) if tensor]
    common = _common(op.graph, values, op.shape)
    values = [_fitted(op.graph, value, op.shape, common) for value in values]

    def element(*given: Any) -> Any:
        tensors = iter(given[:-1])
        return formula(
            *[
                scalar_math.cast(load(next(tensors), given[-1]), inside)
                if tensor
                else scalar_math.const(operand, inside)
                for operand, tensor in zip(operands, is_tensor, strict=True)
            ]
        )

    return op.reshaped(op.graph.compute(common, op.dtype, element, values, op.name))


def _common(
    graph: GraphConverter, values: Sequence[Any], shape: tuple[int, ...]
) -> tuple[int, ...]:
    """The shape to compute in: that of the base of a whole operand, where all others fit it."""
    for value in values:
        base = shape_of(graph.base(value))
        if shape_of(value) != shape or base == shape or not base:
            continue
        if all(_fits(shape_of(other), shape, base) for other in values):
            return base
    return shape


def _fits(own: tuple[int, ...], shape: tuple[int, ...], base: tuple[int, ...]) -> bool:
    """Whether an operand broadcasts to ``base`` as it does to ``shape``."""
    if own == shape or math.prod(own) == 1:
        return True
    row = tuple(size for size in own if size != 1)
    return len(row) == 1 and own[-1] == shape[-1] == base[-1]


def _fitted(
    graph: GraphConverter, value: Any, shape: tuple[int, ...], common: tuple[int, ...]
) -> Any:
    own = shape_of(value)
    if common == shape:
        return value
    if own == shape:
        return graph.reshape(value, common)
    return graph.reshape(value, own[-1:] if own and own[-1] != 1 else ())


def named(name: str) -> Formula:
    """A function of TVM's scalar expressions, by name, looked up when it is called."""

    def formula(*operands: Any) -> Any:
        from tvm import tirx

        return getattr(tirx, name)(*operands)

    return formula


def _row(formula: Formula, op: Operation) -> Any:
    return elementwise(op, formula)


# Functions of one number.


def _sign(x: Any) -> Any:
    below = scalar_math.select(x < zero(x), zero(x) - one(x), zero(x))
    return scalar_math.select(x > zero(x), one(x), below)


def _absolute(x: Any) -> Any:
    return named("abs")(x) if scalar_math.is_float(x) else scalar_math.maximum(x, -x)


_FUNCTIONS: dict[str, Formula] = {
    "abs": _absolute,
    "neg": lambda x: -x,
    "relu": lambda x: scalar_math.maximum(x, zero(x)),
    "sign": _sign,
    "exp": scalar_math.exp,
    "expm1": scalar_math.expm1,
    "erf": scalar_math.erf,
    "tanh": scalar_math.tanh,
    "sigmoid": scalar_math.sigmoid,
    "silu": lambda x: x * scalar_math.sigmoid(x),
    "reciprocal": lambda x: one(x) / x,
    "rsqrt": lambda x: one(x) / named("sqrt")(x),
    "square": lambda x: x * x,
    "maximum": scalar_math.maximum,
    "minimum": scalar_math.minimum,
}
_SAME_NAME = ("sqrt", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh", "atan2")  # fmt: skip
for _name, _formula in (_FUNCTIONS | {name: named(name) for name in _SAME_NAME}).items():
    converts(f"{_name}.default")(functools.partial(_row, _formula))


@converts("floor.default", "ceil.default", "trunc.default", "round.default")
def _rounded(op: Operation) -> Any:
    if not op.dtype.startswith("float"):
        # Whole numbers are whole already.
        return op.compute(load, op["self"])
    return elementwise(op, named("nearbyint" if op.name == "round" else op.name))


@converts("isnan.default", "isinf.default")
def _not_finite(op: Operation) -> Any:
    kind = dtype_of(op["self"])
    if not kind.startswith("float"):
        refuse("Whole numbers")

    def is_infinite(x: Any) -> Any:
        return named("EQ")(named("abs")(x), scalar_math.const(math.inf, kind))

    formula = scalar_math.is_nan if op.name == "isnan" else is_infinite
    return elementwise(op, formula, inside=kind)


@converts("gelu.default")
def _gelu(op: Operation) -> Any:
    def formula(x: Any) -> Any:
        def number(value: float) -> Any:
            return scalar_math.const(value, op.dtype)

        if op["approximate"] == "tanh":
            cubed = x + number(0.044715) * x * x * x
            inner = scalar_math.tanh(number(math.sqrt(2 / math.pi)) * cubed)
        else:
            inner = scalar_math.erf(x * number(math.sqrt(0.5)))
        return number(0.5) * x * (one(x) + inner)

    return elementwise(op, formula)


@converts("leaky_relu.default")
def _leaky(op: Operation) -> Any:
    slope = op["negative_slope"]
    return elementwise(
        op, lambda x: scalar_math.select(x > zero(x), x, x * scalar_math.const(slope, op.dtype))
    )


@converts("threshold_backward.default")
def _threshold_backward(op: Operation) -> Any:
    def formula(gradient: Any, x: Any) -> Any:
        limit = scalar_math.const(op["threshold"], op.dtype)
        return scalar_math.select(x <= limit, zero(gradient), gradient)

    return elementwise(op, formula)


# Arithmetic.


def _differ(op: Operation) -> None:
    """Refuse ``x - x`` and ``x / x`` of floats, which TVM's algebra knows without looking."""
    operands = [o for o in (op["self"], op["other"]) if hasattr(o, "meta")]
    bases = {hash(op.graph.base(op.graph.value(operand))) for operand in operands}
    if len(bases) < len(operands):
        refuse("both operands are the same")


def _scaled(op: Operation, name: str, x: Any) -> Any:
    """A number times the argument ``alpha`` or ``value``."""
    return x if op[name] == 1 else x * scalar_math.const(op[name], scalar_math.kind(x))


@converts("add.Tensor", "add.Scalar")
def _add(op: Operation) -> Any:
    if op.dtype == "bool":
        if op["alpha"] != 1:
            refuse("Booleans with a factor")
        return elementwise(op, named("Or"))
    return elementwise(op, lambda x, y: x + _scaled(op, "alpha", y))


@converts("sub.Tensor", "sub.Scalar", "rsub.Tensor", "rsub.Scalar")
def _sub(op: Operation) -> Any:
    _differ(op)
    if op.name == "rsub":
        return elementwise(op, lambda x, y: y - _scaled(op, "alpha", x))
    return elementwise(op, lambda x, y: x - _scaled(op, "alpha", y))


@converts("mul.Tensor", "mul.Scalar")
def _mul(op: Operation) -> Any:
    return elementwise(op, named("And") if op.dtype == "bool" else lambda x, y: x * y)


@converts("div.Tensor", "div.Scalar")
def _div(op: Operation) -> Any:
    _differ(op)
    return elementwise(op, lambda x, y: x / y)


@converts("div.Tensor_mode", "div.Scalar_mode")
def _truncated(op: Operation) -> Any:
    if not op.dtype.startswith("float") or op["rounding_mode"] != "trunc":
        # Whole numbers divided by zero end a process, and a quotient that is rounded up to the
        # next whole number before it is cut off has a floor that is one too high.
        refuse("A quotient rounded down, or of whole numbers")
    return elementwise(op, lambda x, y: named("trunc")(x / y))


@converts("where.self")
def _where(op: Operation) -> Any:
    def element(condition: Any, x: Any, y: Any, index: Any) -> Any:
        return scalar_math.select(
            scalar_math.cast(load(condition, index), "bool"),
            scalar_math.cast(load(x, index), op.dtype),
            scalar_math.cast(load(y, index), op.dtype),
        )

    return op.compute(element, op["condition"], op["self"], op["other"])


@converts("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default",
          "hardtanh.default")  # fmt: skip
def _clamp(op: Operation) -> Any:
    lower = op.given("min", "min_val")

    def formula(x: Any, *limits: Any) -> Any:
        for position, limit in enumerate(limits):
            bounded = scalar_math.maximum if position < len(lower) else scalar_math.minimum
            x = bounded(x, limit)
        return x

    return elementwise(op, formula, [op["self"], *lower, *op.given("max", "max_val")])


@converts("pow.Tensor_Scalar")
def _power(op: Operation) -> Any:
    exponent = op["exponent"]
    simple: dict[Any, Formula] = {
        0: one,
        1: lambda x: x,
        2: lambda x: x * x,
        3: lambda x: x * x * x,
        4: lambda x: (x * x) * (x * x),
        -1: lambda x: one(x) / x,
    }
    if op.dtype.startswith("float"):
        # torch, too, takes the root for an exponent of a half, and keeps to it at infinity.
        simple[0.5] = named("sqrt")
        simple[-0.5] = lambda x: one(x) / named("sqrt")(x)
    elif exponent not in range(5):
        refuse("A power of whole numbers")
    if exponent in simple:
        return elementwise(op, simple[exponent], [op["self"]])
    return elementwise(op, named("power"))


@converts("pow.Tensor_Tensor", "pow.Scalar")
def _powers(op: Operation) -> Any:
    if not op.dtype.startswith("float"):
        refuse("A power of whole numbers")
    return elementwise(op, named("power"))


@converts("addcmul.default", "addcdiv.default")
def _addc(op: Operation) -> Any:
    def formula(x: Any, y: Any, z: Any) -> Any:
        return x + _scaled(op, "value", y / z if op.name == "addcdiv" else y * z)

    return elementwise(op, formula)


# Comparisons, and what is done with booleans and bits.


def _with_nan(formula: Formula, *, unequal: bool) -> Formula:
    """A comparison that says of NaN what torch says, also where both sides are the same.

    TVM's algebra takes ``x == x`` and ``x <= x`` for true before it knows what ``x`` is.
    """

    def compare(x: Any, y: Any) -> Any:
        from tvm import tirx

        is_nan = tirx.Or(scalar_math.is_nan(x), scalar_math.is_nan(y))
        if unequal:
            return tirx.Or(formula(x, y), is_nan)
        return tirx.And(formula(x, y), tirx.Not(is_nan))

    return compare


def _comparison(formula: Formula, op: Operation) -> Any:
    import torch

    operands = [facts(o) if hasattr(o, "meta") else o for o in (op["self"], op["other"])]
    inside = str(torch.result_type(*operands)).removeprefix("torch.")
    if "float" in inside:
        formula = _with_nan(formula, unequal=op.name == "ne")
    # Booleans compare as small numbers.
    return elementwise(op, formula, inside="int8" if inside == "bool" else inside)


for _name in ("EQ", "NE", "LT", "LE", "GT", "GE"):
    converts(f"{_name.lower()}.Tensor", f"{_name.lower()}.Scalar")(
        functools.partial(_comparison, named(_name))
    )


def _logic(formula: Formula, op: Operation) -> Any:
    return elementwise(op, formula, inside="bool")


def _bits(formula: Formula, op: Operation) -> Any:
    return elementwise(op, formula if op.dtype == "bool" else named(op.name))


for _name, _logical in {"and": "And", "or": "Or", "xor": "NE", "not": "Not"}.items():
    converts(f"logical_{_name}.default")(functools.partial(_logic, named(_logical)))
    converts(*(f"bitwise_{_name}.{overload}" for overload in ("Tensor", "Scalar", "default")))(
        functools.partial(_bits, named(_logical))
    )


# Copies and conversions.


@converts("_to_copy.default", "clone.default", "alias.default", "detach.default",
          "lift_fresh_copy.default", "expand.default", "copy.default")  # fmt: skip
def _copy(op: Operation) -> Any:
    given = op.get("src", op["self"])
    source, result = facts(given), facts(op.node)
    if source.device != result.device:
        refuse("Another device")
    if source.dtype == result.dtype and source.shape == result.shape:
        # Nothing changes its input in a functional graph, so that a copy need not be one.
        return op.graph.value(given)
    return elementwise(op, lambda x: x, [given])


@converts("full.default", "full_like.default", "scalar_tensor.default", "zeros_like.default",
          "ones_like.default", "new_zeros.default", "new_ones.default", "new_full.default",
          "zeros.default", "ones.default")  # fmt: skip
def _full(op: Operation) -> Any:
    import torch

    number = op.get("fill_value", op.get("s", int("ones" in op.name)))
    return op.graph.tensor(torch.full(op.shape, number, dtype=facts(op.node).dtype))
