"""Operators that hand elements on to other places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_math
from dynamo_ext.backends.tvm_convert import (
    Walk,
    converts,
    dtype_name,
    facts,
    positive,
    refuse,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import Node


def moved(walk: Walk, node: Node, source: Any, where: Callable[[list[Any]], list[Any]]) -> Any:
    """A result of which each element is that of ``source`` at ``where(index)``."""
    name = str(node.target).split(".")[1].strip("_")
    kind = dtype_name(facts(node).dtype)
    return walk.compute(
        facts(node).shape, kind, lambda x, index: x(*where(list(index))), [source], name
    )


@converts("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default",
          "squeeze.default", "squeeze.dim", "squeeze.dims")  # fmt: skip
def _view(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    return walk.reshape(walk.value(a["self"]), [int(s) for s in facts(node).shape])


@converts("permute.default", "transpose.int", "t.default")
def _permute(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    rank = facts(node).dim()
    if "dims" in a:
        order = [positive(d, rank) for d in a["dims"]]
    else:
        order = list(range(rank))
        first, second = (positive(a.get(k, d), rank) for k, d in (("dim0", 0), ("dim1", -1)))
        order[first], order[second] = order[second], order[first]
    sizes = [int(size) for size in facts(a["self"]).shape]
    moving = [d for d in order if sizes[d] != 1]
    if moving == sorted(moving):
        return walk.reshape(walk.value(a["self"]), [int(s) for s in facts(node).shape])

    def where(index: list[Any]) -> list[Any]:
        return [index[order.index(d)] for d in range(rank)]

    return moved(walk, node, a["self"], where)


@converts("select.int", "select_copy.int")
def _select(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = facts(a["self"]).shape
    dim = positive(a["dim"], len(shape))
    place = positive(int(a["index"]), int(shape[dim]))
    return moved(walk, node, a["self"], lambda i: [*i[:dim], place, *i[dim:]])


@converts("slice.Tensor")
def _slice(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    shape = facts(a["self"]).shape
    dim = positive(a["dim"], len(shape))
    size = int(shape[dim])
    start = 0 if a["start"] is None else int(a["start"])
    start = min(max(positive(start, size), 0), size)
    step = int(a["step"])
    if step == 1 and tuple(facts(node).shape) == tuple(shape):
        return walk.value(a["self"])
    return moved(walk, node, a["self"], lambda i: [*i[:dim], i[dim] * step + start, *i[dim + 1 :]])


@converts("flip.default")
def _flip(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    sizes = [int(size) for size in facts(node).shape]
    turned = {positive(d, len(sizes)) for d in a["dims"]}

    def where(index: list[Any]) -> list[Any]:
        return [sizes[d] - 1 - i if d in turned else i for d, i in enumerate(index)]

    return moved(walk, node, a["self"], where)


@converts("repeat.default")
def _repeat(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    sizes = [int(size) for size in facts(a["self"]).shape]

    def where(index: list[Any]) -> list[Any]:
        own = index[len(index) - len(sizes) :]
        return [i % size for i, size in zip(own, sizes, strict=True)]

    return moved(walk, node, a["self"], where)


@converts("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default")
def _split(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    dim = positive(a["dim"], facts(a["self"]).dim())
    parts: list[Any] = []
    start = 0
    for part in node.meta["val"]:

        def take(x: Any, index: Any, begin: int = start) -> Any:
            return x(*index[:dim], index[dim] + begin, *index[dim + 1 :])

        kind = dtype_name(part.dtype)
        parts.append(walk.compute(part.shape, kind, take, [a["self"]], "split"))
        start += int(part.shape[dim])
    return parts


@converts("unbind.int")
def _unbind(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    dim = positive(a["dim"], facts(a["self"]).dim())
    parts = []
    for place, part in enumerate(node.meta["val"]):

        def take(x: Any, index: Any, at: int = place) -> Any:
            return x(*index[:dim], at, *index[dim:])

        parts.append(walk.compute(part.shape, dtype_name(part.dtype), take, [a["self"]], "unbind"))
    return parts


@converts("cat.default", "stack.default")
def _cat(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import te, tirx

    result = facts(node)
    kind = dtype_name(result.dtype)
    shape = tuple(int(size) for size in result.shape)
    dim = positive(a["dim"], len(shape))
    values = [walk.value(source) for source in a["tensors"]]
    if "stack" in str(node.target):
        one = (*shape[:dim], 1, *shape[dim + 1 :])
        values = [walk.reshape(value, one) for value in values]
    values = [value for value in values if len(shape_of(value)) == len(shape)]

    def function(*tensors: Any) -> Any:
        def element(*index: Any) -> Any:
            end = shape[dim]
            chosen = None
            for tensor in reversed(tensors):
                begin = end - int(tensor.shape[dim])
                own = [*index[:dim], index[dim] - begin, *index[dim + 1 :]]
                value = tvm_math.cast(tensor(*own), kind)
                # The branch that is not taken must not be read: its index is out of range.
                chosen = (
                    value if chosen is None else tirx.if_then_else(index[dim] < end, value, chosen)
                )
                end = begin
            return chosen

        return te.compute(shape, element, name="cat")

    return walk.emit(function, values, "cat")


@converts("constant_pad_nd.default")
def _pad(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    result = facts(node)
    rank = result.dim()
    sizes = [int(size) for size in facts(a["self"]).shape]
    pads = [int(pad) for pad in a["pad"]]
    before = [0] * rank
    for place in range(len(pads) // 2):
        before[rank - 1 - place] = pads[2 * place]
    kind = dtype_name(result.dtype)
    return walk.compute(
        result.shape,
        kind,
        lambda x, index: padded(x, index, before, sizes, tvm_math.const(a["value"], kind)),
        [a["self"]],
        "pad",
    )


def padded(x: Any, index: Any, before: list[int], sizes: list[int], filler: Any) -> Any:
    """An element of a tensor with margins: ``filler`` where the index is beyond its sizes."""
    from tvm import tirx

    own = [i - first for i, first in zip(index, before, strict=True)]
    inside = [
        limit
        for i, first, size, axis in zip(own, before, sizes, index, strict=True)
        for limit in ([i >= 0] if first else []) + [i < size]
        if limit is not None and axis is not None
    ]
    return tirx.if_then_else(tirx.all(*inside), x(*own), filler)


@converts("tril.default", "triu.default")
def _triangle(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    kind = dtype_name(facts(node).dtype)
    lower = "tril" in str(node.target)
    diagonal = int(a["diagonal"])

    def element(x: Any, index: Any) -> Any:
        row, column = index[-2], index[-1]
        kept = column <= row + diagonal if lower else column >= row + diagonal
        return tvm_math.select(kept, x(*index), tvm_math.const(0, kind))

    return walk.compute(facts(node).shape, kind, element, [a["self"]], "triangle")


@converts("slice_scatter.default", "select_scatter.default")
def _put(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    from tvm import tirx

    shape = facts(node).shape
    dim = positive(a["dim"], len(shape))
    size = int(shape[dim])
    kind = dtype_name(facts(node).dtype)
    if "index" in a:
        start, stop, step, drop = positive(int(a["index"]), size), None, 1, True
        stop = start + 1
    else:
        start = min(max(positive(int(a["start"] or 0), size), 0), size)
        stop = size if a["end"] is None else min(max(positive(int(a["end"]), size), 0), size)
        step, drop = int(a["step"]), False
    if stop <= start:
        refuse("An empty slice")

    def element(x: Any, source: Any, index: Any) -> Any:
        at = index[dim]
        inside = tirx.all(at >= start, at < stop, tirx.EQ((at - start) % step, 0))
        middle = [] if drop else [(at - start) // step]
        own = source(*index[:dim], *middle, *index[dim + 1 :])
        return tirx.if_then_else(inside, tvm_math.cast(own, kind), x(*index))

    return walk.compute(shape, kind, element, [a["self"], a["src"]], "put")


@converts("pixel_shuffle.default")
def _pixel_shuffle(walk: Walk, node: Node, a: dict[str, Any]) -> Any:
    factor = int(a["upscale_factor"])

    def where(index: list[Any]) -> list[Any]:
        *lead, channel, y, x = index
        inner = (y % factor) * factor + x % factor
        return [*lead, channel * (factor * factor) + inner, y // factor, x // factor]

    return moved(walk, node, a["self"], where)
