"""Operators that read where other tensors say: each index is looked at before it is used.

An index out of range would read another's memory or end the process. The functions read with
indices that are in range whatever they were, and tell beside their results whether one was not;
the call then fails, and eager raises torch's own error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    facts,
    load,
    positive,
    refuse,
    shape_of,
)
from dynamo_ext.backends.tvm_reductions import merged, reduced

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import Node


def _guard(walk: Walk, argument: Any, size: int, *, negative: bool = True) -> None:
    """Watch that all indices of a tensor lie within ``size``, counted from either end or not."""
    low = -size if negative else 0
    constant = walk.constant(argument)
    if constant is not None:
        if constant.numel() and (constant.min() < low or constant.max() >= size):
            refuse("A constant index out of range")
        return
    from tvm import tirx

    value = walk.value(argument)
    sizes, gone = merged(shape_of(value), range(len(shape_of(value))))

    def function(x: Any) -> Any:
        def wrong(index: Sequence[Any]) -> Any:
            return tirx.Or(x(*index) < low, x(*index) >= size)

        if not gone:
            from tvm import te

            return te.compute((), lambda: wrong(()), name="range")
        return reduced(x, gone, "any", "bool", wrong, "range")

    flag = walk.emit(function, [walk.reshape(value, sizes)], "range")
    walk.check(flag, f"An index is out of range for {size} elements.")


def _within(index: Any, size: int) -> Any:
    """A non-negative index within range, whatever it was."""
    from tvm import tirx

    wide = index.astype("int64")
    end, zero = tirx.const(size, "int64"), tirx.const(0, "int64")
    wrapped = tirx.Select(wide < zero, wide + end, wide)
    return tirx.Max(tirx.Min(wrapped, end - tirx.const(1, "int64")), zero)


def _whole(argument: Any) -> None:
    if facts(argument).is_floating_point() or dtype_name(facts(argument).dtype) in (
        "bool",
        "uint8",
    ):
        refuse("A mask in the place of indices")


@converts("embedding.default")
def _embedding(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    _whole(a["indices"])
    rows = int(facts(a["weight"]).shape[0])
    _guard(walk, a["indices"], rows, negative=False)
    kind = dtype_name(facts(node).dtype)

    def element(w: Any, i: Any, index: Any) -> Any:
        return w(_within(i(*index[:-1]), rows), index[-1])

    return walk.compute(facts(node).shape, kind, element, [a["weight"], a["indices"]], "embedding")


@converts("index_select.default")
def _index_select(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    _whole(a["index"])
    shape = facts(a["self"]).shape
    if not len(shape) or facts(a["index"]).dim() != 1:
        refuse("An index of no dimensions")
    dim = positive(a["dim"], len(shape))
    size = int(shape[dim])
    _guard(walk, a["index"], size, negative=False)
    kind = dtype_name(facts(node).dtype)

    def element(x: Any, i: Any, index: Any) -> Any:
        return x(*index[:dim], _within(i(index[dim]), size), *index[dim + 1 :])

    return walk.compute(facts(node).shape, kind, element, [a["self"], a["index"]], "index_select")


@converts("gather.default")
def _gather(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = facts(a["self"]).shape
    if not len(shape) or facts(a["index"]).dim() != len(shape):
        refuse("An index of no dimensions")
    dim = positive(a["dim"], len(shape))
    size = int(shape[dim])
    _guard(walk, a["index"], size, negative=False)
    kind = dtype_name(facts(node).dtype)

    def element(x: Any, i: Any, index: Any) -> Any:
        return x(*index[:dim], _within(i(*index), size), *index[dim + 1 :])

    return walk.compute(facts(node).shape, kind, element, [a["self"], a["index"]], "gather")


@converts("index.Tensor", "_unsafe_index.Tensor")
def _index(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = [int(s) for s in facts(a["self"]).shape]
    given = list(a["indices"]) + [None] * (len(shape) - len(a["indices"]))
    places = [d for d, i in enumerate(given) if i is not None]
    for d in places:
        _whole(given[d])
        _guard(walk, given[d], shape[d])
    rank = max(facts(given[d]).dim() for d in places)
    together = places == list(range(places[0], places[-1] + 1))
    begin = places[0] if together else 0
    kind = dtype_name(facts(node).dtype)

    def element(x: Any, *rest: Any) -> Any:
        index = rest[-1]
        tensors = dict(zip(places, rest[:-1], strict=True))
        looked = index[begin : begin + rank]
        others = iter([*index[:begin], *index[begin + rank :]])
        own = [
            _within(load(tensors[d], looked), shape[d]) if d in tensors else next(others)
            for d in range(len(shape))
        ]
        return x(*own)

    sources = [a["self"], *[given[d] for d in places]]
    return walk.compute(facts(node).shape, kind, element, sources, "index")
