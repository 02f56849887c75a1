"""Sums, extremes, softmax and normalisations.

A sum over the last dimensions is written as sums of every sixteenth element, and then of these:
sixteen lanes fill a vector, and the compiler may not reorder additions by itself.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    elements,
    facts,
    positive,
    refuse,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import Node

LANES = 16


def reducer(kind: str) -> Callable[..., Any]:
    """One of ``sum``, ``max``, ``min``, ``any``, ``all`` as a commutative reducer."""
    from tvm import te, tirx

    if kind == "sum":
        return te.sum  # type: ignore[no-any-return]

    def identity(dtype: str) -> Any:
        if kind in ("any", "all"):
            return tirx.const(kind == "all", "bool")
        worst = tirx.min_value if kind == "max" else tirx.max_value
        if dtype.startswith("float"):
            return tirx.const(float("-inf" if kind == "max" else "inf"), dtype)
        return worst(dtype)

    combine = {
        "max": tvm_math.maximum,
        "min": tvm_math.minimum,
        # Functions of Python's own: TVM reads the names of their arguments.
        "any": lambda x, y: tirx.Or(x, y),  # noqa: PLW0108
        "all": lambda x, y: tirx.And(x, y),  # noqa: PLW0108
    }[kind]
    return te.comm_reducer(combine, identity, name=kind)  # type: ignore[no-any-return]


def reduced(  # noqa: PLR0913, PLR0917 - each says what the reduction is
    tensor: Any,
    dims: Sequence[int],
    kind: str,
    dtype: str,
    formula: Callable[..., Any] | None = None,
    name: str = "",
) -> Any:
    """A tensor expression reduced over some dimensions, which go.

    Parameters
    ----------
    tensor
        A tensor of ``te``, whose shape counts.
    dims
        Dimensions, from the front.
    kind
        ``sum``, ``max``, ``min``, ``any`` or ``all``.
    dtype
        What elements are converted to beforehand.
    formula
        Gives the element to reduce for a full index; by default the tensor's own.
    name
        Stem of the stages' names.
    """
    from tvm import te

    shape = [int(size) for size in tensor.shape]
    name = name or kind
    gone = sorted(set(dims))
    kept = [d for d in range(len(shape)) if d not in gone]
    read = formula or (lambda index: tensor(*index))
    reduce = reducer(kind)
    result = tuple(shape[d] for d in kept)
    last = len(shape) - 1
    trailing = last in gone and shape[last] >= 2 * LANES

    def element(own: Sequence[Any], over: Sequence[Any]) -> Any:
        index: list[Any] = [None] * len(shape)
        for d, i in zip([*kept, *gone], [*own, *over], strict=True):
            index[d] = i
        return tvm_math.cast(read(index), dtype)

    if not trailing:
        axes = [te.reduce_axis((0, shape[d]), name=f"r{d}") for d in gone]
        return te.compute(
            result,
            lambda *own: reduce(element(own, [axis.var for axis in axes]), axis=axes),
            name=name,
        )
    blocks, rest = divmod(shape[last], LANES)
    axes = [te.reduce_axis((0, shape[d]), name=f"r{d}") for d in gone[:-1]]
    block = te.reduce_axis((0, blocks), name="block")
    lanes = te.compute(
        (*result, LANES),
        lambda *own: reduce(
            element(own[:-1], [*[a.var for a in axes], block.var * LANES + own[-1]]),
            axis=[*axes, block],
        ),
        name=f"{name}_lanes",
    )
    lane = te.reduce_axis((0, LANES), name="lane")
    total = te.compute(
        result, lambda *own: reduce(lanes(*own, lane.var), axis=[lane]), name=f"{name}_total"
    )
    if not rest:
        return total
    axes = [te.reduce_axis((0, shape[d]), name=f"t{d}") for d in gone[:-1]]
    left = te.reduce_axis((0, rest), name="rest")
    tail = te.compute(
        result,
        lambda *own: reduce(
            element(own, [*[a.var for a in axes], left.var + blocks * LANES]), axis=[*axes, left]
        ),
        name=f"{name}_tail",
    )
    return te.compute(result, lambda *own: _join(kind, total(*own), tail(*own)), name=f"{name}_all")


def _join(kind: str, left: Any, right: Any) -> Any:
    from tvm import tirx

    if kind == "sum":
        return left + right
    if kind in ("any", "all"):
        return (tirx.Or if kind == "any" else tirx.And)(left, right)
    return (tvm_math.maximum if kind == "max" else tvm_math.minimum)(left, right)


def merged(shape: Sequence[int], dims: Sequence[int]) -> tuple[list[int], list[int]]:
    """Neighbouring dimensions that are all kept, or all reduced, as one."""
    sizes: list[int] = []
    gone: list[int] = []
    before: bool | None = None
    for d, size in enumerate(shape):
        now = d in dims
        if now == before:
            sizes[-1] *= size
        else:
            sizes.append(size)
            if now:
                gone.append(len(sizes) - 1)
        before = now
    return sizes, gone


def reduction(
    walk: Walk, node: Node, kind: str, dims: Sequence[int] | None, finish: Any = None
) -> Any:
    """Emit a reduction of ``self`` (the first input) with the node's shape and dtype."""
    source = node.args[0]
    shape = [int(size) for size in facts(source).shape]
    rank = len(shape)
    over = [positive(d, rank) for d in dims] if dims else list(range(rank))
    sizes, gone = merged(shape, over)
    dtype = dtype_name(facts(node).dtype)
    value = walk.reshape(walk.value(source), sizes)
    if not rank:
        return walk.reshape(walk.compute((), dtype, lambda x, _: x(), [value], kind), ())

    def function(x: Any) -> Any:
        from tvm import te

        total = reduced(x, gone, kind, dtype)
        if finish is None:
            return total
        return te.compute(total.shape, lambda *i: finish(total(*i)), name="finish")

    return walk.reshape(walk.emit(function, [value], kind), [int(s) for s in facts(node).shape])


@converts("sum.dim_IntList", "sum.default")
def _sum(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return reduction(walk, node, "sum", a.get("dim"))


@converts("mean.dim", "mean.default")
def _mean(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    count = elements(facts(a["self"]).shape) // elements(facts(node).shape)
    dtype = dtype_name(facts(node).dtype)
    return reduction(
        walk, node, "sum", a.get("dim"), lambda total: total / tvm_math.const(count, dtype)
    )


@converts("amax.default", "amin.default")
def _extreme(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return reduction(walk, node, "max" if "amax" in str(node.target) else "min", a["dim"])


@converts("max.default", "min.default")
def _extreme_of_all(walk: Walk, node: Node, a: dict[str, Any]) -> Any:  # noqa: ARG001
    return reduction(walk, node, "max" if ".max" in str(node.target) else "min", None)


@converts("any.default", "any.dim", "any.dims", "all.default", "all.dim", "all.dims")
def _any(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    dim = a.get("dim")
    dims = [dim] if isinstance(dim, int) else dim
    if dtype_name(facts(node).dtype) != "bool":
        refuse("Not a boolean")
    if dtype_name(facts(a["self"]).dtype).startswith("float"):
        refuse("TVM takes NaN for false")
    return reduction(walk, node, "any" if ".any" in str(node.target) else "all", dims)


@converts("var.correction", "var_mean.correction")
def _var(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = [int(size) for size in facts(a["self"]).shape]
    if not shape:
        refuse("The variance of one number")
    over = [positive(d, len(shape)) for d in a["dim"] or range(len(shape))]
    sizes, gone = merged(shape, over)
    dtype = dtype_name(facts(node).dtype)
    correction = 1 if a["correction"] is None else a["correction"]
    count = elements([shape[d] for d in set(over)])
    value = walk.reshape(walk.value(a["self"]), sizes)
    mean = walk.emit(lambda x: mean_of(x, gone, dtype), [value], "mean")
    spread = walk.emit(
        lambda x, m: variance_of(x, m, gone, dtype, max(count - correction, 0.0)),
        [value, mean],
        "variance",
    )
    result = [int(s) for s in facts(node).shape]
    found = walk.reshape(spread, result)
    if "var_mean" in str(node.target):
        return [found, walk.reshape(mean, result)]
    return found


def mean_of(x: Any, gone: Sequence[int], dtype: str) -> Any:
    """The mean over some dimensions, as a tensor expression."""
    from tvm import te

    total = reduced(x, gone, "sum", dtype, name="mean")
    count = tvm_math.const(elements([x.shape[d] for d in gone]), dtype)
    return te.compute(total.shape, lambda *i: total(*i) / count, name="mean")


def variance_of(x: Any, mean: Any, gone: Sequence[int], dtype: str, divisor: float) -> Any:
    """The mean square about a mean, as a tensor expression."""
    from tvm import te

    def square(index: Sequence[Any]) -> Any:
        own = [i for d, i in enumerate(index) if d not in gone]
        off = tvm_math.cast(x(*index), dtype) - mean(*own)
        return off * off

    total = reduced(x, gone, "sum", dtype, square, name="variance")
    return te.compute(
        total.shape, lambda *i: total(*i) / tvm_math.const(divisor, dtype), name="variance"
    )
