"""Equal elements, whose order torch leaves open where it sorts: engines keep that of their places.

Which one torch's kernels give depends on the processor: with AVX2 or AVX-512 they sort whole
vectors. An engine would differ, and so would all that follows the indices. So ``sort`` becomes the
stable one, which is one of the orders that torch may give, before a graph is cut into parts: eager
and every engine agree about it, in forward and backward graphs alike. Operators that take a few
elements have no such form; where an engine disagrees with eager on those, it is compared again
with what takes them in the order of a stable sort.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.numerics import higher_precision, verdict


def _stable(x: Any, dim: int = -1, descending: bool = False) -> Any:  # noqa: FBT001, FBT002
    return torch.sort(x, stable=True, dim=dim, descending=descending)


DECOMPOSITIONS: dict[Any, Callable[..., Any]] = {torch.ops.aten.sort.default: _stable}
"""Sorting as stable sorting, for engines that sort."""


def disagreement(
    graph: GraphModule,
    args: Sequence[Any],
    outputs: Sequence[Any],
    expected: Sequence[Any],
    *,
    rounding: bool = False,
) -> str:
    """What is wrong with an engine's outputs, as ``verdict.disagreement`` has it, ties apart.

    With ``rounding`` they may also be about as near to the exact ones as eager's are.
    """
    first = ""
    for each, right in _references(graph, args, expected):
        exact = partial(higher_precision.exact, each, args, right) if rounding else tuple[Any, ...]
        wrong = verdict.disagreement(outputs, right, exact)
        if not wrong:
            return ""
        first = first or wrong
    return first


def _references(
    graph: GraphModule, args: Sequence[Any], expected: Sequence[Any]
) -> Iterator[tuple[GraphModule, Sequence[Any]]]:
    """Graphs that compute what a partition may, and their outputs: eager's, and settled ones."""
    yield graph, expected
    if any(node.target in _SETTLED for node in graph.graph.nodes):
        settled = duplicate(graph)
        for node in settled.graph.nodes:
            node.target = _SETTLED.get(node.target, node.target)
        settled.recompile()
        yield settled, settled(*args)


def _topk(
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,  # noqa: FBT001, FBT002 - ATen's own signature
    sorted: bool = True,  # noqa: A002, FBT001, FBT002, ARG001
) -> tuple[torch.Tensor, ...]:
    if not x.ndim:
        return tuple(torch.topk(x, k))
    return tuple(
        each.narrow(dim, 0, k) for each in torch.sort(x, stable=True, dim=dim, descending=largest)
    )


def _kthvalue(
    x: torch.Tensor,
    k: int,
    dim: int = -1,
    keepdim: bool = False,  # noqa: FBT001, FBT002 - ATen's own signature
) -> tuple[torch.Tensor, ...]:
    if not x.ndim:
        return tuple(torch.kthvalue(x, k))
    parts = (each.narrow(dim, k - 1, 1) for each in torch.sort(x, stable=True, dim=dim))
    return tuple(each if keepdim else each.squeeze(dim) for each in parts)


_SETTLED: Mapping[Any, Callable[..., Any]] = {
    torch.ops.aten.topk.default: _topk,
    torch.ops.aten.kthvalue.default: _kthvalue,
}
"""Operators that take some of several equal elements, and what takes the first of them."""
