"""Operators that compute each element by itself: arithmetic, functions, comparisons, copies."""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import Operation, converts, facts, shape_of
from dynamo_ext.backends.engines.tvm.scalar_math import named, one, zero

Formula = Callable[..., Any]

_OPERANDS = ("self", "other", "exponent", "min", "min_val", "max", "max_val")
"""Names of the arguments that formulas get, in the order of all operators' schemas."""


def elementwise(
    formula: Formula, op: Operation, operands: Sequence[Any] | None = None, *, inside: str = ""
) -> Any:
    """An operator whose result, by element, is ``formula`` of its broadcast operands.

    These are nodes and numbers, by default the arguments that are, and are converted to the dtype
    ``inside``, by default the result's. Where one is a view of a matrix, the matrix is computed on,
    so that the operation can be fused with the product that made it.
    """
    inside = inside or op.dtype
    operands = op.given(*_OPERANDS) if operands is None else operands
    is_tensor = [hasattr(operand, "meta") for operand in operands]
    values = [op.graph.value(o) for o, tensor in zip(operands, is_tensor, strict=True) if tensor]
    values, shape = _at_base(op, values)

    def element(*given: Any) -> Any:
        tensors = iter(given[:-1])
        return formula(
            *[
                scalar_math.cast(scalar_math.load(next(tensors), given[-1]), inside)
                if tensor
                else scalar_math.const(operand, inside)
                for operand, tensor in zip(operands, is_tensor, strict=True)
            ]
        )

    return op.reshaped(op.graph.compute(shape, op.dtype, element, values, op.name))


def _at_base(op: Operation, values: list[Any]) -> tuple[list[Any], tuple[int, ...]]:
    """Operands, and the shape to compute in: that of a whole one's base, where all fit it."""
    for value in values:
        base = shape_of(op.graph.base(value))
        if shape_of(value) == op.shape and base not in (op.shape, ()):
            within = (_within(shape_of(other), op.shape, base) for other in values)
            shapes = [shape for shape in within if shape is not None]
            if len(shapes) == len(values):
                return list(map(op.graph.reshape, values, shapes)), base
    return values, op.shape


def _within(
    own: tuple[int, ...], shape: tuple[int, ...], base: tuple[int, ...]
) -> tuple[int, ...] | None:
    """The shape in which an operand broadcasts to ``base`` as it does to ``shape``, if any."""
    if own == shape:
        return base
    if math.prod(own) == 1:
        return ()
    is_row = math.prod(own) == own[-1] == shape[-1] == base[-1]
    return own[-1:] if is_row else None


def _formula(*names: str) -> Callable[[Formula], Formula]:
    """Register a function of an operation and its operands as the formula of some operators."""

    def register(function: Formula) -> Formula:
        converts(*names)(lambda op: elementwise(functools.partial(function, op), op))
        return function

    return register


# Functions.


def _sign(x: Any) -> Any:
    below = scalar_math.select(x < zero(x), zero(x) - one(x), zero(x))
    return scalar_math.select(x > zero(x), one(x), below)


def _rounded(name: str) -> Formula:
    # Whole numbers are whole already.
    return lambda x: named(name)(x) if scalar_math.is_float(x) else x


_FUNCTIONS: dict[str, Formula] = {
    "abs": lambda x: named("abs")(x) if scalar_math.is_float(x) else scalar_math.maximum(x, -x),
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
    "floor": _rounded("floor"),
    "ceil": _rounded("ceil"),
    "trunc": _rounded("trunc"),
    "round": _rounded("nearbyint"),
    "maximum": scalar_math.maximum,
    "minimum": scalar_math.minimum,
}
_SAME_NAME = ("sqrt", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh", "atan2")  # fmt: skip
for _name, _function in (_FUNCTIONS | {name: named(name) for name in _SAME_NAME}).items():
    converts(f"{_name}.default")(functools.partial(elementwise, _function))


# Arithmetic.


def _differ(op: Operation) -> None:
    """Refuse ``x - x`` and ``x / x`` of floats, which TVM's algebra knows without looking."""
    operands = [o for o in (op["self"], op["other"]) if hasattr(o, "meta")]
    bases = {hash(op.graph.base(op.graph.value(operand))) for operand in operands}
    if len(bases) < len(operands):
        op.refuse("both operands are the same")


@_formula("add.Tensor", "add.Scalar")
def _add(op: Operation, x: Any, y: Any) -> Any:
    if op.dtype == "bool":
        if op["alpha"] != 1:
            op.refuse("Booleans with a factor")
        return named("Or")(x, y)
    return x + scalar_math.scaled(y, op["alpha"])


@_formula("sub.Tensor", "sub.Scalar")
def _sub(op: Operation, x: Any, y: Any) -> Any:
    _differ(op)
    return x - scalar_math.scaled(y, op["alpha"])


@_formula("mul.Tensor", "mul.Scalar")
def _mul(op: Operation, x: Any, y: Any) -> Any:
    return named("And")(x, y) if op.dtype == "bool" else x * y


@_formula("div.Tensor", "div.Scalar")
def _div(op: Operation, x: Any, y: Any) -> Any:
    _differ(op)
    return x / y


@_formula("div.Tensor_mode", "div.Scalar_mode")
def _truncated(op: Operation, x: Any, y: Any) -> Any:
    if not op.dtype.startswith("float") or op["rounding_mode"] != "trunc":
        # Whole numbers divided by zero end a process, and a quotient that is rounded up to the
        # next whole number before it is cut off has a floor that is one too high.
        op.refuse("A quotient rounded down, or of whole numbers")
    return named("trunc")(x / y)


@converts("where.self")
def _where(op: Operation) -> Any:
    def chosen(condition: Any, x: Any, y: Any) -> Any:
        return scalar_math.select(scalar_math.cast(condition, "bool"), x, y)

    return elementwise(chosen, op, [op["condition"], op["self"], op["other"]])


@_formula("clamp.default", "clamp.Tensor", "hardtanh.default")
def _clamp(op: Operation, x: Any, *limits: Any) -> Any:
    lower = len(op.given("min", "min_val"))
    for limit in limits[:lower]:
        x = scalar_math.maximum(x, limit)
    for limit in limits[lower:]:
        x = scalar_math.minimum(x, limit)
    return x


@_formula("pow.Tensor_Scalar", "pow.Tensor_Tensor", "pow.Scalar")
def _power(op: Operation, x: Any, y: Any) -> Any:
    exponent = op["exponent"]
    simple: dict[Any, Formula] = {
        2: lambda x: x * x,
        3: lambda x: x * x * x,
        # torch, too, takes the root for an exponent of a half, and keeps to it at infinity.
        0.5: named("sqrt"),
        -0.5: lambda x: one(x) / named("sqrt")(x),
    }
    is_float = op.dtype.startswith("float")
    if exponent in simple and (is_float or exponent in {2, 3}):
        return simple[exponent](x)
    if not is_float:
        op.refuse("A power of whole numbers")
    return named("power")(x, y)


# Comparisons, and what is done with booleans and bits.


def _comparison(formula: Formula, op: Operation) -> Any:
    operands = [facts(o) if hasattr(o, "meta") else o for o in (op["self"], op["other"])]
    inside = str(torch.result_type(*operands)).removeprefix("torch.")

    def compare(x: Any, y: Any) -> Any:
        found = formula(x, y)
        if "float" not in inside:
            return found
        # TVM's algebra takes ``x == x`` and ``x <= x`` for true before it knows what ``x`` is.
        is_nan = named("Or")(scalar_math.is_nan(x), scalar_math.is_nan(y))
        if op.name == "ne":
            return named("Or")(found, is_nan)
        return named("And")(found, named("Not")(is_nan))

    # Booleans compare as small numbers.
    return elementwise(compare, op, inside="int8" if inside == "bool" else inside)


for _name in ("EQ", "NE", "LT", "LE", "GT", "GE"):
    converts(f"{_name.lower()}.Tensor", f"{_name.lower()}.Scalar")(
        functools.partial(_comparison, named(_name))
    )


def _bits(formula: Formula, op: Operation) -> Any:
    return elementwise(formula if op.dtype == "bool" else named(op.name), op)


for _name, _logical in {"and": "And", "or": "Or", "xor": "NE", "not": "Not"}.items():
    converts(f"logical_{_name}.default")(
        functools.partial(elementwise, named(_logical), inside="bool")
    )
    converts(*(f"bitwise_{_name}.{overload}" for overload in ("Tensor", "Scalar", "default")))(
        functools.partial(_bits, named(_logical))
    )


# Copies and conversions.


@converts("_to_copy.default", "clone.default", "alias.default", "lift_fresh_copy.default",
          "expand.default", "copy.default")  # fmt: skip
def _copy(op: Operation) -> Any:
    given = op.get("src", op["self"])
    source, result = facts(given), facts(op.node)
    if source.dtype == result.dtype and source.shape == result.shape:
        # Nothing changes its input in a functional graph, so that a copy need not be one.
        return op.graph.value(given)
    return elementwise(lambda x: x, op, [given])


@converts("full_like.default")
def _full(op: Operation) -> Any:
    return op.graph.tensor(torch.full(op.shape, op["fill_value"], dtype=facts(op.node).dtype))
