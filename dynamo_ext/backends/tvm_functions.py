"""Functions of one number, activations, and tensors that are filled or converted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import Walk, converts, dtype_name, facts, load, refuse
from dynamo_ext.backends.tvm_pointwise import named, one, pointwise, zero

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Node


def _unary(name: str, formula: Callable[[Any], Any], *, floats: bool = False) -> None:
    @converts(f"{name}.default")
    def convert(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
        if floats and not facts(node).is_floating_point():
            # Whole numbers are whole already.
            return walk.compute(
                facts(node).shape, dtype_name(facts(node).dtype), load, [a["self"]], name
            )
        return pointwise(walk, node, formula, [a["self"]])


def _sign(x: Any) -> Any:
    nothing, whole = zero(x), one(x)
    below = tvm_math.select(x < nothing, nothing - whole, nothing)
    return tvm_math.select(x > nothing, whole, below)


def _absolute(x: Any) -> Any:
    from tvm import tirx

    return tirx.abs(x) if tvm_math.kind(x).startswith("float") else tvm_math.maximum(x, -x)


_unary("abs", _absolute)
_unary("neg", lambda x: -x)
_unary("relu", lambda x: tvm_math.maximum(x, zero(x)))
_unary("sign", _sign)
_unary("exp", tvm_math.exp)
_unary("expm1", tvm_math.expm1)
_unary("erf", tvm_math.erf)
_unary("tanh", tvm_math.tanh)
_unary("sigmoid", tvm_math.sigmoid)
_unary("reciprocal", lambda x: one(x) / x)
_unary("rsqrt", lambda x: one(x) / named("sqrt")(x))
_unary("square", lambda x: x * x)
for _name in ("sqrt", "log", "log2", "log10", "log1p", "sin", "cos", "tan", "asin", "acos", "atan",
              "sinh", "cosh"):  # fmt: skip
    _unary(_name, named(_name))
for _name in ("floor", "ceil", "trunc"):
    _unary(_name, named(_name), floats=True)
_unary("round", named("nearbyint"), floats=True)


@converts("isnan.default", "isinf.default")
def _strange(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    kind = dtype_name(facts(a["self"]).dtype)
    if not kind.startswith("float"):
        refuse("Whole numbers")
    infinite = "isinf" in str(node.target)

    def formula(x: Any) -> Any:
        if not infinite:
            return tvm_math.is_nan(x)
        return tirx.EQ(tirx.abs(x), tirx.const(float("inf"), kind))

    return pointwise(walk, node, formula, [a["self"]], inside=kind)


# Activations that core ATen keeps whole.


@converts("gelu.default")
def _gelu(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    def formula(x: Any) -> Any:
        kind = tvm_math.kind(x)
        half = tvm_math.const(0.5, kind)
        if a["approximate"] == "tanh":
            cubed = x + tvm_math.const(0.044715, kind) * x * x * x
            inner = tvm_math.tanh(tvm_math.const(0.7978845608028654, kind) * cubed)
        else:
            inner = tvm_math.erf(x * tvm_math.const(0.7071067811865476, kind))
        return half * x * (one(x) + inner)

    return pointwise(walk, node, formula, [a["self"]])


@converts("silu.default")
def _silu(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return pointwise(walk, node, lambda x: x * tvm_math.sigmoid(x), [a["self"]])


@converts("leaky_relu.default")
def _leaky(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    def formula(x: Any) -> Any:
        slope = tvm_math.const(a["negative_slope"], tvm_math.kind(x))
        return tvm_math.select(x > zero(x), x, x * slope)

    return pointwise(walk, node, formula, [a["self"]])


# Backward formulas that stay whole.


@converts("threshold_backward.default")
def _threshold_backward(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    def formula(grad: Any, x: Any) -> Any:
        limit = tvm_math.const(a["threshold"], tvm_math.kind(x))
        return tvm_math.select(x <= limit, zero(grad), grad)

    return pointwise(walk, node, formula, [a["grad_output"], a["self"]])


# Copies and conversions.


@converts("_to_copy.default", "clone.default", "alias.default", "detach.default",
          "lift_fresh_copy.default", "expand.default", "copy.default")  # fmt: skip
def _copy(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    given = a.get("src", a["self"])
    source, result = facts(given), facts(node)
    if source.device != result.device:
        refuse("Another device")
    if source.dtype == result.dtype and source.shape == result.shape:
        # Nothing changes its input in a functional graph, so that a copy need not be one.
        return walk.value(given)
    return pointwise(walk, node, lambda x: x, [given])


@converts("full.default", "full_like.default", "scalar_tensor.default", "zeros_like.default",
          "ones_like.default", "new_zeros.default", "new_ones.default", "new_full.default",
          "zeros.default", "ones.default")  # fmt: skip
def _full(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    import torch

    name = str(node.target)
    number = a.get("fill_value", a.get("s", 1 if "ones" in name else 0))
    return walk.tensor(torch.full(tuple(facts(node).shape), number, dtype=facts(node).dtype))
