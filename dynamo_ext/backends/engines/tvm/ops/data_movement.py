"""Operators that hand elements on to other places."""

from collections.abc import Callable
from typing import Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import Operation, converts, shape_of


def _moved(op: Operation, where: Callable[[list[Any]], list[Any]]) -> Any:
    """A result of which each element is that of ``self`` at ``where(index)``."""
    return op.compute(lambda x, index: x(*where(list(index))), op["self"])


@converts("view.default", "unsqueeze.default", "squeeze.dims")
def _view(op: Operation) -> Any:
    return op.reshaped(op["self"])


@converts("permute.default")
def _permute(op: Operation) -> Any:
    rank = len(op.shape)
    order = [d % rank for d in op["dims"]]
    sizes = shape_of(op["self"])
    moving = [d for d in order if sizes[d] != 1]
    if moving == sorted(moving):
        return op.reshaped(op["self"])
    return _moved(op, lambda index: [index[order.index(d)] for d in range(rank)])


@converts("select.int", "select_copy.int")
def _select(op: Operation) -> Any:
    shape = shape_of(op["self"])
    dim = op.dim(len(shape))
    place = int(op["index"]) % shape[dim]
    return _moved(op, lambda i: [*i[:dim], place, *i[dim:]])


def _bounds(op: Operation, size: int) -> tuple[int, int, int]:
    """Where a slice of a dimension starts and stops, and its step."""
    return slice(op["start"], op["end"], op["step"]).indices(size)


@converts("slice.Tensor")
def _slice(op: Operation) -> Any:
    dim, shape = op.dim(), shape_of(op["self"])
    if op.shape == shape:
        return op.graph.value(op["self"])
    start, _, step = _bounds(op, shape[dim])
    return _moved(op, lambda i: [*i[:dim], i[dim] * step + start, *i[dim + 1 :]])


@converts("flip.default")
def _flip(op: Operation) -> Any:
    turned = {d % len(op.shape) for d in op["dims"]}
    return _moved(
        op, lambda index: [op.shape[d] - 1 - i if d in turned else i for d, i in enumerate(index)]
    )


@converts("split_with_sizes.default")
def _split(op: Operation) -> Any:
    dim = op.dim()
    parts: list[Any] = []
    start = 0
    for part in op.node.meta["val"]:

        def take(x: Any, index: Any, begin: int = start) -> Any:
            return x(*index[:dim], index[dim] + begin, *index[dim + 1 :])

        shape = tuple(map(int, part.shape))
        parts.append(op.graph.compute(shape, op.dtype, take, [op["self"]], op.name))
        start += shape[dim]
    return parts


@converts("cat.default")
def _cat(op: Operation) -> Any:
    from tvm import topi

    def joined(*tensors: Any) -> Any:
        return topi.concatenate([topi.cast(each, op.dtype) for each in tensors], op.dim())

    return op.graph.emit(joined, op["tensors"], op.name)


@converts("constant_pad_nd.default")
def _pad(op: Operation) -> Any:
    from tvm import topi

    pads = [int(pad) for pad in op["pad"]]
    others = [0] * (len(op.shape) - len(pads) // 2)
    before, after = others + pads[-2::-2], others + pads[::-2]
    filler = scalar_math.const(op["value"], op.dtype)
    return op.graph.emit(lambda x: topi.nn.pad(x, before, after, filler), [op["self"]], op.name)


@converts("slice_scatter.default")
def _slice_scatter(op: Operation) -> Any:
    from tvm import tirx

    dim = op.dim()
    start, stop, step = _bounds(op, op.shape[dim])

    def element(x: Any, source: Any, index: Any) -> Any:
        at = index[dim]
        inside = tirx.all(at >= start, at < stop, tirx.EQ((at - start) % step, 0))
        own = source(*index[:dim], (at - start) // step, *index[dim + 1 :])
        return tirx.if_then_else(inside, scalar_math.cast(own, op.dtype), x(*index))

    return op.compute(element, op["self"], op["src"])
