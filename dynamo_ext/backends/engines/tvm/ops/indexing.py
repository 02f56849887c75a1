"""Operators that read where other tensors say.

An index out of range would read another's memory or end the process. ``data_checks`` finds it, but
only when everything has run: so each index is brought into range before it is used.
"""

from collections.abc import Callable
from typing import Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import Operation, converts, dtype_of, facts, shape_of


def _within(op: Operation, argument: Any, size: int) -> Callable[[Any], Any]:
    """What makes each index of a tensor non-negative and less than ``size``."""
    from tvm import tirx

    if dtype_of(argument) in ("bool", "uint8"):
        op.refuse("A mask in the place of indices")

    def within(index: Any) -> Any:
        wide = index.astype("int64")
        wrapped = tirx.Select(wide < 0, wide + size, wide)
        return tirx.Max(tirx.Min(wrapped, tirx.const(size - 1, "int64")), tirx.const(0, "int64"))

    return within


@converts("embedding.default")
def _embedding(op: Operation) -> Any:
    within = _within(op, op["indices"], shape_of(op["weight"])[0])
    return op.compute(
        lambda w, i, index: w(within(i(*index[:-1])), index[-1]), op["weight"], op["indices"]
    )


@converts("index_select.default", "gather.default")
def _along_dim(op: Operation) -> Any:
    shape = shape_of(op["self"])
    one = op.name == "index_select"
    if not shape or facts(op["index"]).dim() != (1 if one else len(shape)):
        op.refuse("An index of no dimensions")
    dim = op.dim(len(shape))
    within = _within(op, op["index"], shape[dim])

    def element(x: Any, i: Any, index: Any) -> Any:
        place = within(i(index[dim]) if one else i(*index))
        return x(*index[:dim], place, *index[dim + 1 :])

    return op.compute(element, op["self"], op["index"])


@converts("index.Tensor")
def _index(op: Operation) -> Any:
    shape = shape_of(op["self"])
    given = {d: index for d, index in enumerate(op["indices"]) if index is not None}
    within = {d: _within(op, i, shape[d]) for d, i in given.items()}
    rank = max(facts(index).dim() for index in given.values())
    places = list(given)
    together = places == list(range(places[0], places[-1] + 1))
    begin = places[0] if together else 0

    def element(x: Any, *rest: Any) -> Any:
        *tensors, index = rest
        chosen = dict(zip(places, tensors, strict=True))
        looked = index[begin : begin + rank]
        others = iter([*index[:begin], *index[begin + rank :]])
        own = [
            within[d](scalar_math.load(chosen[d], looked)) if d in chosen else next(others)
            for d in range(len(shape))
        ]
        return x(*own)

    return op.compute(element, op["self"], *given.values())
