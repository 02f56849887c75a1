"""Which products of a partition lose most in int8: where results are wrong, these are kept first.

Each is computed with both operands rounded, where all before it is exact. An activation has one
scale, as in the coarsest of the engines, and weights one for each column or output channel.
"""

import math
import time
from bisect import bisect_left
from collections.abc import Callable, Collection, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

from dynamo_ext.backends import precision
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.timing import first_run

SHARE = 0.25
"""How many of the products may be kept; where there are few, one."""

MOST_SECONDS = 30.0
"""After so many seconds of a search no trial begins."""

_LARGEST = 127

_DOUBTFUL = 1.25
"""Times a bound that a predicted error may be, for what is worth to be tried."""


def errors(graph: GraphModule, names: Collection[str], inputs: Sequence[Any]) -> dict[Node, float]:
    """What each of the products of these names loses alone, relative to its result.

    ``inputs`` are those of a call of the graph.
    """
    run = _Errors(graph, names)
    with torch.no_grad():
        run.run(*inputs)
    return run.found


def hopeless(lost: Collection[float], error: float, bound: AccuracyBound | None) -> bool:
    """Whether a bound is out of reach although those products are kept that lose most.

    ``error`` is that of the results with none of them kept; errors of products add up as if they
    had nothing to do with each other.
    """
    limit = bound.relative_error if bound else None
    if limit is None or not any(lost):
        return False
    squares = sorted(each**2 for each in lost)
    left = sum(squares[: len(squares) - most(len(squares))]) / sum(squares)
    return error * math.sqrt(left) > _DOUBTFUL * limit


def most(count: int) -> int:
    """How many of so many products may be kept."""
    return max(int(count * SHARE), 1)


def fewest(count: int, tried: Callable[[int], bool]) -> int:
    """How many of the ranked products to keep, as few as bisection finds; 0 for too many.

    ``tried`` compiles with so many of ``count`` kept, and says whether results are right then. Its
    last call is with the answer.
    """
    until = time.perf_counter() + MOST_SECONDS
    made: list[int] = []
    rights: list[int] = []

    def right(kept: int) -> bool:
        if first_run.current().used_up() or time.perf_counter() > until:
            return False
        made.append(kept)
        found = tried(kept)
        rights.extend([kept] * found)
        return found

    if not (count and right(most(count))):
        return 0
    bisect_left(range(1, most(count)), x=True, key=right)
    least = min(rights)
    return least if made[-1] == least or tried(least) else 0


class _Errors(Interpreter):
    def __init__(self, graph: GraphModule, names: Collection[str]) -> None:
        super().__init__(graph)
        self._names = set(names)
        self.found: dict[Node, float] = {}

    def run_node(self, n: Node) -> Any:
        result = super().run_node(n)
        if n.name not in self._names:
            return result
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        place = precision.WEIGHTS[operator_name(n.target)]
        weight = args[place]
        # Weights that are not finite are not rounded.
        if weight.isfinite().all():
            # A matrix has its columns last, a convolution's weights their output channels first.
            along = [0] if weight.ndim == 2 else list(range(1, weight.ndim))  # noqa: PLR2004
            rounded = list(args)
            rounded[place - 1] = _rounded(args[place - 1], None)
            rounded[place] = _rounded(weight, along)
            lost = (n.target(*rounded, **kwargs) - result).norm(dim=-1)  # type: ignore[operator]
            # By row: a large one does not hide what the others lose, for norms may follow.
            shares = torch.where(lost == 0, 0.0, lost / result.norm(dim=-1))
            self.found[n] = float(shares.nan_to_num(1.0).clamp_max(1.0).mean())
        return result


def _rounded(value: torch.Tensor, along: list[int] | None) -> torch.Tensor:
    sizes = value.abs()
    largest = sizes.amax() if along is None else sizes.amax(along, keepdim=True)
    scale = (largest / _LARGEST).clamp_min(torch.finfo(value.dtype).tiny)
    return (value / scale).round() * scale
