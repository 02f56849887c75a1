"""Operators that read where other tensors say: each index is looked at before it is used.

An index out of range would read another's memory or end the process. The functions read with
indices that are in range whatever they were, and give beside their results whether one was not;
the call then fails, and eager raises torch's own error.
"""

from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends.engines.tvm import scalar_math
from dynamo_ext.backends.engines.tvm.convert import (
    Operation,
    converts,
    dtype_of,
    facts,
    shape_of,
)
from dynamo_ext.backends.engines.tvm.ops.reductions import merged, reduced


def _checked(
    op: Operation, argument: Any, size: int, *, negative: bool = False
) -> Callable[[Any], Any]:
    """Check that all indices of a tensor lie within ``size``, counted from either end or not.

    The function that is returned makes each of them non-negative and within range in any case.
    """
    from tvm import tirx

    if dtype_of(argument) in ("bool", "uint8"):
        op.refuse("A mask in the place of indices")
    low = -size if negative else 0

    def within(index: Any) -> Any:
        wide = index.astype("int64")
        wrapped = tirx.Select(wide < 0, wide + size, wide)
        return tirx.Max(tirx.Min(wrapped, tirx.const(size - 1, "int64")), tirx.const(0, "int64"))

    constant = op.graph.constant(argument)
    if constant is not None:
        if constant.min() < low or constant.max() >= size:
            op.refuse("A constant index out of range")
        return within
    shape = shape_of(argument)
    sizes, gone = merged(shape, range(len(shape)))

    def function(x: Any) -> Any:
        def wrong(index: Sequence[Any]) -> Any:
            return tirx.Or(x(*index) < low, x(*index) >= size)

        return reduced(x, gone, "any", "bool", wrong, "range")

    flag = op.graph.emit(function, [op.graph.reshape(argument, sizes)], "range")
    op.graph.add_range_check(flag, f"An index is out of range for {size} elements.")
    return within


@converts("embedding.default")
def _embedding(op: Operation) -> Any:
    within = _checked(op, op["indices"], shape_of(op["weight"])[0])
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
    within = _checked(op, op["index"], shape[dim])

    def element(x: Any, i: Any, index: Any) -> Any:
        place = within(i(index[dim]) if one else i(*index))
        return x(*index[:dim], place, *index[dim + 1 :])

    return op.compute(element, op["self"], op["index"])


@converts("index.Tensor")
def _index(op: Operation) -> Any:
    shape = shape_of(op["self"])
    given = {d: index for d, index in enumerate(op["indices"]) if index is not None}
    within = {d: _checked(op, i, shape[d], negative=True) for d, i in given.items()}
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
