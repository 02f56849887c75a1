"""Operators that compute each element by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    elements,
    facts,
    load,
    refuse,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import Node


def pointwise(  # noqa: PLR0913 - each says what the operator is
    walk: Walk,
    node: Node,
    formula: Callable[..., Any],
    operands: Sequence[Any],
    *,
    inside: str = "",
    name: str = "",
) -> Any:
    """Emit an operator whose result, by element, is ``formula`` of its broadcast operands.

    Parameters
    ----------
    walk, node
        The graph and the operator.
    formula
        Takes TIR expressions, one for each operand, of one dtype.
    operands
        Nodes and numbers.
    inside
        The dtype that operands are converted to; by default the result's.
    name
        The function's name; by default the operator's.

    Notes
    -----
    Where an operand is a view of a matrix, the matrix is computed on, so that the operation can
    be fused with the product that made it.
    """
    kind = dtype_name(facts(node).dtype)
    inside = inside or kind
    shape = tuple(int(size) for size in facts(node).shape)
    is_tensor = [hasattr(operand, "meta") for operand in operands]
    values = [walk.value(o) for o, tensor in zip(operands, is_tensor, strict=True) if tensor]
    common = _common(walk, values, shape)
    values = [_fitted(walk, value, shape, common) for value in values]

    def element(*given: Any) -> Any:
        index = given[-1]
        tensors = iter(given[:-1])
        return formula(
            *[
                tvm_math.cast(load(next(tensors), index), inside)
                if tensor
                else tvm_math.const(operand, inside)
                for operand, tensor in zip(operands, is_tensor, strict=True)
            ]
        )

    label = name or str(node.target).split(".")[1].strip("_")
    made = walk.compute(common, kind, element, values, label)
    return walk.reshape(made, shape)


def _common(walk: Walk, values: Sequence[Any], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape to compute in: that of the base of a whole operand, where all others fit it."""
    for value in values:
        base = shape_of(walk.base(value))
        if shape_of(value) != shape or base == shape or not base:
            continue
        if all(_fits(shape_of(other), shape, base) for other in values):
            return base
    return shape


def _fits(own: tuple[int, ...], shape: tuple[int, ...], base: tuple[int, ...]) -> bool:
    """Whether an operand broadcasts to ``base`` as it does to ``shape``."""
    if own == shape or elements(own) == 1:
        return True
    row = tuple(size for size in own if size != 1)
    return len(row) == 1 and own[-1] == shape[-1] == base[-1]


def _fitted(walk: Walk, value: Any, shape: tuple[int, ...], common: tuple[int, ...]) -> Any:
    own = shape_of(value)
    if common == shape:
        return value
    if own == shape:
        return walk.reshape(value, common)
    return walk.reshape(value, own[-1:] if own and own[-1] != 1 else ())


def promoted(operands: Sequence[Any]) -> str:
    """The dtype that torch computes in, as for a comparison, whose result is boolean."""
    import torch

    values = [facts(o) if hasattr(o, "meta") else o for o in operands]
    return dtype_name(torch.result_type(*values))


def zero(x: Any) -> Any:
    """Nought in the dtype of an expression."""
    return tvm_math.const(0, tvm_math.kind(x))


def one(x: Any) -> Any:
    """One in the dtype of an expression."""
    return tvm_math.const(1, tvm_math.kind(x))


def named(name: str) -> Callable[..., Any]:
    """A function of TVM's scalar expressions, by name, looked up when it is called."""

    def formula(*operands: Any) -> Any:
        from tvm import tirx

        return getattr(tirx, name)(*operands)

    return formula


# Arithmetic.


def _differ(walk: Walk, a: dict[str, Any]) -> None:
    """Refuse ``x - x`` and ``x / x`` of floats, which TVM's algebra knows without looking."""
    first, second = a["self"], a["other"]
    both = hasattr(first, "meta") and hasattr(second, "meta")
    if both and hash(walk.base(walk.value(first))) == hash(walk.base(walk.value(second))):
        refuse("both operands are the same")


def _scaled(alpha: Any, x: Any) -> Any:
    return x if alpha == 1 else x * tvm_math.const(alpha, tvm_math.kind(x))


@converts("add.Tensor", "add.Scalar")
def _add(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    def formula(x: Any, y: Any) -> Any:
        if tvm_math.kind(x) == "bool":
            return tirx.Or(x, y)
        return x + _scaled(a["alpha"], y)

    if a["alpha"] != 1 and dtype_name(facts(node).dtype) == "bool":
        refuse("Booleans with a factor")
    return pointwise(walk, node, formula, [a["self"], a["other"]])


@converts("sub.Tensor", "sub.Scalar")
def _sub(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    _differ(walk, a)
    return pointwise(walk, node, lambda x, y: x - _scaled(a["alpha"], y), [a["self"], a["other"]])


@converts("rsub.Tensor", "rsub.Scalar")
def _rsub(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    _differ(walk, a)
    return pointwise(walk, node, lambda x, y: y - _scaled(a["alpha"], x), [a["self"], a["other"]])


@converts("mul.Tensor", "mul.Scalar")
def _mul(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    def formula(x: Any, y: Any) -> Any:
        return tirx.And(x, y) if tvm_math.kind(x) == "bool" else x * y

    return pointwise(walk, node, formula, [a["self"], a["other"]])


@converts("div.Tensor", "div.Scalar")
def _div(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    _differ(walk, a)
    return pointwise(walk, node, lambda x, y: x / y, [a["self"], a["other"]])


@converts("div.Tensor_mode", "div.Scalar_mode")
def _rounded(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    if not facts(node).is_floating_point() or a["rounding_mode"] != "trunc":
        # Whole numbers divided by zero end a process, and a quotient that is rounded up to the
        # next whole number before it is cut off has a floor that is one too high.
        refuse("A quotient rounded down, or of whole numbers")
    return pointwise(walk, node, lambda x, y: tirx.trunc(x / y), [a["self"], a["other"]])


@converts("where.self")
def _where(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    condition, yes, no = a["condition"], a["self"], a["other"]
    kind = dtype_name(facts(node).dtype)
    shape = facts(node).shape
    values = [walk.value(each) for each in (condition, yes, no)]

    def element(c: Any, x: Any, y: Any, index: Any) -> Any:
        given = tvm_math.cast(load(c, index), "bool")
        return tvm_math.select(
            given, tvm_math.cast(load(x, index), kind), tvm_math.cast(load(y, index), kind)
        )

    return walk.compute(shape, kind, element, values, "where")


@converts("maximum.default")
def _maximum(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return pointwise(walk, node, tvm_math.maximum, [a["self"], a["other"]])


@converts("minimum.default")
def _minimum(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return pointwise(walk, node, tvm_math.minimum, [a["self"], a["other"]])


@converts("clamp.default", "clamp.Tensor", "clamp_min.default", "clamp_max.default",
          "hardtanh.default")  # fmt: skip
def _clamp(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    low, high = a.get("min", a.get("min_val")), a.get("max", a.get("max_val"))
    operands = [a["self"], *(limit for limit in (low, high) if limit is not None)]

    def formula(x: Any, *limits: Any) -> Any:
        left = list(limits)
        if low is not None:
            x = tvm_math.maximum(x, left.pop(0))
        return x if high is None else tvm_math.minimum(x, left.pop(0))

    return pointwise(walk, node, formula, operands)


@converts("pow.Tensor_Scalar")
def _power(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    exponent = a["exponent"]
    simple: dict[Any, Callable[[Any], Any]] = {
        0: one,
        1: lambda x: x,
        2: lambda x: x * x,
        3: lambda x: x * x * x,
        4: lambda x: (x * x) * (x * x),
        -1: lambda x: one(x) / x,
    }
    if facts(node).is_floating_point():
        # torch, too, takes the root for an exponent of a half, and keeps to it at infinity.
        simple[0.5] = tirx.sqrt
        simple[-0.5] = lambda x: one(x) / tirx.sqrt(x)
    elif exponent not in range(5):
        refuse("A power of whole numbers")
    formula = simple.get(exponent)
    if formula is None:
        return pointwise(walk, node, tirx.power, [a["self"], exponent])
    return pointwise(walk, node, formula, [a["self"]])


@converts("pow.Tensor_Tensor", "pow.Scalar")
def _powers(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    if not facts(node).is_floating_point():
        refuse("A power of whole numbers")
    return pointwise(walk, node, tirx.power, [a["self"], a["exponent"]])


@converts("atan2.default")
def _atan2(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    return pointwise(walk, node, tirx.atan2, [a["self"], a["other"]])


@converts("addcmul.default", "addcdiv.default")
def _addc(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    divided = "addcdiv" in str(node.target)

    def formula(x: Any, y: Any, z: Any) -> Any:
        return x + _scaled(a["value"], y / z if divided else y * z)

    return pointwise(walk, node, formula, [a["self"], a["tensor1"], a["tensor2"]])
