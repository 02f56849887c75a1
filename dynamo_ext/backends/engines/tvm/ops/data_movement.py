"""Operators that hand elements on to other places."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    Operation,
    converts,
    facts,
    positive,
    refuse,
    shape_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _moved(op: Operation, where: Callable[[list[Any]], list[Any]]) -> Any:
    """A result of which each element is that of ``self`` at ``where(index)``."""
    return op.compute(lambda x, index: x(*where(list(index))), op["self"])


@converts("view.default", "reshape.default", "_unsafe_view.default", "unsqueeze.default",
          "squeeze.default", "squeeze.dim", "squeeze.dims")  # fmt: skip
def _view(op: Operation) -> Any:
    return op.reshaped(op["self"])


@converts("permute.default", "transpose.int", "t.default")
def _permute(op: Operation) -> Any:
    rank = len(op.shape)
    order = list(range(rank))
    if op.name == "permute":
        order = [positive(d, rank) for d in op["dims"]]
    elif rank:
        first, second = positive(op.get("dim0", 0), rank), positive(op.get("dim1", -1), rank)
        order[first], order[second] = order[second], order[first]
    sizes = shape_of(op["self"])
    moving = [d for d in order if sizes[d] != 1]
    if moving == sorted(moving):
        return op.reshaped(op["self"])
    return _moved(op, lambda index: [index[order.index(d)] for d in range(rank)])


@converts("select.int", "select_copy.int")
def _select(op: Operation) -> Any:
    shape = shape_of(op["self"])
    dim = op.dim(len(shape))
    place = positive(int(op["index"]), shape[dim])
    return _moved(op, lambda i: [*i[:dim], place, *i[dim:]])


def _start(op: Operation, size: int) -> int:
    return min(max(positive(int(op["start"] or 0), size), 0), size)


@converts("slice.Tensor")
def _slice(op: Operation) -> Any:
    dim, shape, step = op.dim(), shape_of(op["self"]), int(op["step"])
    if step == 1 and op.shape == shape:
        return op.graph.value(op["self"])
    start = _start(op, shape[dim])
    return _moved(op, lambda i: [*i[:dim], i[dim] * step + start, *i[dim + 1 :]])


@converts("flip.default")
def _flip(op: Operation) -> Any:
    turned = {positive(d, len(op.shape)) for d in op["dims"]}
    return _moved(
        op, lambda index: [op.shape[d] - 1 - i if d in turned else i for d, i in enumerate(index)]
    )


@converts("repeat.default")
def _repeat(op: Operation) -> Any:
    sizes = shape_of(op["self"])

    def where(index: list[Any]) -> list[Any]:
        own = index[len(index) - len(sizes) :]
        return [i % size for i, size in zip(own, sizes, strict=True)]

    return _moved(op, where)


@converts("pixel_shuffle.default")
def _pixel_shuffle(op: Operation) -> Any:
    factor = int(op["upscale_factor"])

    def where(index: list[Any]) -> list[Any]:
        *lead, channel, y, x = index
        inner = (y % factor) * factor + x % factor
        return [*lead, channel * (factor * factor) + inner, y // factor, x // factor]

    return _moved(op, where)


@converts("split.Tensor", "split_with_sizes.default", "split_with_sizes_copy.default",
          "unbind.int")  # fmt: skip
def _split(op: Operation) -> Any:
    dim = op.dim(facts(op["self"]).dim())
    parts: list[Any] = []
    start = 0
    for part in op.node.meta["val"]:

        def take(x: Any, index: Any, begin: int = start) -> Any:
            if op.name == "unbind":
                return x(*index[:dim], begin, *index[dim:])
            return x(*index[:dim], index[dim] + begin, *index[dim + 1 :])

        shape = tuple(map(int, part.shape))
        parts.append(op.graph.compute(shape, op.dtype, take, [op["self"]], op.name))
        start += 1 if op.name == "unbind" else shape[dim]
    return parts


@converts("cat.default", "stack.default")
def _cat(op: Operation) -> Any:
    from tvm import tirx

    dim = op.dim()
    sources = [op.graph.value(source) for source in op["tensors"]]
    if op.name == "stack":
        one = (*op.shape[:dim], 1, *op.shape[dim + 1 :])
        sources = [op.graph.reshape(source, one) for source in sources]
    sources = [source for source in sources if len(shape_of(source)) == len(op.shape)]

    def element(*given: Any) -> Any:
        *tensors, index = given
        end = op.shape[dim]
        chosen = None
        for tensor in reversed(tensors):
            begin = end - int(tensor.shape[dim])
            own = [*index[:dim], index[dim] - begin, *index[dim + 1 :]]
            value = scalar_math.cast(tensor(*own), op.dtype)
            # The branch that is not taken must not be read: its index is out of range.
            chosen = value if chosen is None else tirx.if_then_else(index[dim] < end, value, chosen)
            end = begin
        return chosen

    return op.compute(element, *sources)


@converts("constant_pad_nd.default")
def _pad(op: Operation) -> Any:
    pads = [int(pad) for pad in op["pad"]]
    before = [0] * (len(op.shape) - len(pads) // 2) + pads[-2::-2]
    sizes = shape_of(op["self"])
    filler = scalar_math.const(op["value"], op.dtype)
    return op.compute(lambda x, index: padded(x, index, before, sizes, filler), op["self"])


def padded(
    x: Any, index: Sequence[Any], before: Sequence[int], sizes: Sequence[int], filler: Any
) -> Any:
    """An element of a tensor with margins: ``filler`` where the index is beyond its sizes."""
    from tvm import tirx

    own = [i - first for i, first in zip(index, before, strict=True)]
    inside = []
    for i, first, size in zip(own, before, sizes, strict=True):
        inside += [i >= 0] * bool(first) + [i < size]
    return tirx.if_then_else(tirx.all(*inside), x(*own), filler)


@converts("tril.default", "triu.default")
def _triangle(op: Operation) -> Any:
    diagonal = int(op["diagonal"])

    def element(x: Any, index: Any) -> Any:
        row, column = index[-2:]
        kept = column <= row + diagonal if op.name == "tril" else column >= row + diagonal
        return scalar_math.select(kept, x(*index), scalar_math.const(0, op.dtype))

    return op.compute(element, op["self"])


@converts("slice_scatter.default", "select_scatter.default")
def _put(op: Operation) -> Any:
    from tvm import tirx

    dim = op.dim()
    size = op.shape[dim]
    one = op.name == "select_scatter"
    if one:
        start, step = positive(int(op["index"]), size), 1
        stop = start + 1
    else:
        start, step = _start(op, size), int(op["step"])
        stop = size if op["end"] is None else min(max(positive(int(op["end"]), size), 0), size)
    if stop <= start:
        refuse("An empty slice")

    def element(x: Any, source: Any, index: Any) -> Any:
        at = index[dim]
        inside = tirx.all(at >= start, at < stop, tirx.EQ((at - start) % step, 0))
        middle = [] if one else [(at - start) // step]
        own = source(*index[:dim], *middle, *index[dim + 1 :])
        return tirx.if_then_else(inside, scalar_math.cast(own, op.dtype), x(*index))

    return op.compute(element, op["self"], op["src"])
