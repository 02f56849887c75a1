"""Comparisons, and what is done with booleans and bits."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import Walk, converts, dtype_name, facts
from dynamo_ext.backends.tvm_pointwise import named, pointwise, promoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Node


def _guarded(formula: Callable[[Any, Any], Any], *, unequal: bool) -> Callable[[Any, Any], Any]:
    """A comparison that says of NaN what torch says, also where both sides are the same.

    TVM's algebra takes ``x == x`` and ``x <= x`` for true before it knows what ``x`` is.
    """

    def compare(x: Any, y: Any) -> Any:
        from tvm import tirx

        strange = tirx.Or(tvm_math.is_nan(x), tvm_math.is_nan(y))
        if unequal:
            return tirx.Or(formula(x, y), strange)
        return tirx.And(formula(x, y), tirx.Not(strange))

    return compare


def _compare(name: str, formula: Callable[[Any, Any], Any]) -> None:
    @converts(f"{name}.Tensor", f"{name}.Scalar")
    def convert(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
        operands = [a["self"], a["other"]]
        inside = promoted(operands)
        # Booleans compare as small numbers.
        inside = "int8" if inside == "bool" else inside
        guarded = _guarded(formula, unequal=name == "ne") if "float" in inside else formula
        return pointwise(walk, node, guarded, operands, inside=inside)


# ``==`` of expressions waits to be asked whether it is meant so.
_compare("eq", named("EQ"))
_compare("ne", named("NE"))
_compare("lt", lambda x, y: x < y)
_compare("le", lambda x, y: x <= y)
_compare("gt", lambda x, y: x > y)
_compare("ge", lambda x, y: x >= y)


def _logic(name: str, formula: Callable[..., Any]) -> None:
    @converts(f"{name}.default")
    def convert(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
        operands = [value for key, value in a.items() if key in ("self", "other")]
        return pointwise(walk, node, formula, operands, inside="bool")


_logic("logical_and", named("And"))
_logic("logical_or", named("Or"))
_logic("logical_not", named("Not"))
_logic("logical_xor", named("NE"))


def _bits(name: str, logical: str, whole: str) -> None:
    @converts(f"{name}.Tensor", f"{name}.Scalar", f"{name}.default")
    def convert(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
        boolean = dtype_name(facts(node).dtype) == "bool"
        formula = named(logical if boolean else whole)
        operands = [value for key, value in a.items() if key in ("self", "other")]
        return pointwise(walk, node, formula, operands)


_bits("bitwise_and", "And", "bitwise_and")
_bits("bitwise_or", "Or", "bitwise_or")
_bits("bitwise_xor", "NE", "bitwise_xor")
_bits("bitwise_not", "Not", "bitwise_not")
