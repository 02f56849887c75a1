"""Which operations of a graph under autocast have to stay in eager's precision, found by bisection.

Where results miss the bound of a lower precision, few operations may be to blame: products that
cancel, scores before a softmax, large outliers. Autocast in eager stands in for the backend in the
search, so that the backend compiles one more time at most. Trials and seconds are limited, and so
is the number of operations: beyond it the graph is eager's.
"""

import time
from bisect import bisect
from collections.abc import Callable, Collection, Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule, Interpreter, Node

from dynamo_ext.backends import effects
from dynamo_ext.backends.pipeline.autocast.lowering import Lowering
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.interruptions import pass_on
from dynamo_ext.records.graph import KeptOperation
from dynamo_ext.torch_private import dispatch, fx_nodes
from dynamo_ext.torch_private.entered_modes import forward_of

SHARE = 0.25
"""How many of the operations that are lowered may be kept; where there are few, one."""

MOST_TRIALS = 64
MOST_SECONDS = 30.0
"""What bisection may take: runs of the graph, and the time after which none begins."""


class SecondForm(NamedTuple):
    """How a graph is lowered a second time: ``lower(kept, inputs)`` gives what a call runs."""

    lowering: Lowering
    lower: Callable[[Collection[str], Sequence[Any]], Callable[..., Any]]


class Verdict(NamedTuple):
    """What is wrong with results, as one sentence or nothing, and the largest relative error.

    Without an error something else is wrong: a result is not finite, or has to be equal and is not.
    """

    wrong: str
    error: float | None


class _GivenUp(Exception):  # noqa: N818 - it ends a search
    """The search has had its trials or its seconds."""


def found(
    lowering: Lowering,
    inputs: Callable[[], Sequence[Any]],
    judge: Callable[[Sequence[Any], Any], Verdict],
) -> tuple[KeptOperation, ...]:
    """The fewest operations, as far as bisection tells, without which the results are right.

    None where they are too many, where no operation would be left to lower, or where the search was
    too long. ``inputs`` gives those of a call, which a run may change; ``judge`` gets them after
    the run, and its results.
    """
    trials = _Trials(lowering, inputs, judge)
    try:
        candidates = trials.lowered(())
        most = max(int(len(candidates) * SHARE), 1)
        # From the end: what reads a kept result is in eager's dtype, too, up to the next product.
        names = smallest(candidates[::-1], trials.meet, most)[::-1]
        for name in list(names):
            if not trials.verdict(others := [each for each in names if each != name]).wrong:
                names = others
        if not names or not trials.lowered(names):
            return ()
        kept = trials.verdict(names).error or 0.0
        without = [trials.verdict([each for each in names if each != name]) for name in names]
    except Exception as error:  # noqa: BLE001 - eager runs the graph then
        pass_on(error)
        return ()
    return tuple(
        KeptOperation(name, each.error, kept) for name, each in zip(names, without, strict=True)
    )


def smallest(
    candidates: Sequence[str], meet: Callable[[Sequence[str]], bool], most: int
) -> list[str]:
    """Candidates that together ``meet`` a condition, each the last one of the fewest in order.

    Empty where all of them do not meet it, none of them do, or it would take more than ``most``.
    """
    names: list[str] = []
    rest = list(candidates)
    if meet(names) or not meet(rest):
        return []
    while not meet(names):
        if len(names) == most or not rest:
            return []
        last = bisect(range(1, len(rest)), x=False, key=lambda n: meet([*names, *rest[:n]]))
        names.append(rest[last])
        del rest[last:]
    return names


class _Trials:
    """Runs of a graph under autocast in eager, with operations kept; each set of them once."""

    def __init__(
        self,
        lowering: Lowering,
        inputs: Callable[[], Sequence[Any]],
        judge: Callable[[Sequence[Any], Any], Verdict],
    ) -> None:
        self._lowering = lowering
        self._inputs = inputs
        self._judge = judge
        self._known: dict[frozenset[str], Verdict] = {}
        self._until = time.perf_counter() + MOST_SECONDS

    def meet(self, kept: Collection[str]) -> bool:
        """Whether the results are right with these operations kept, within the limits."""
        used = len(self._known) >= MOST_TRIALS or time.perf_counter() > self._until
        if used and frozenset(kept) not in self._known:
            raise _GivenUp
        return not self.verdict(kept).wrong

    def verdict(self, kept: Collection[str]) -> Verdict:
        """What is wrong with the results; a run that raises has none."""
        key = frozenset(kept)
        if key not in self._known:
            given = self._inputs()
            try:
                outputs = self._run(forward_of(self._lowering.graph(key)), given)
                self._known[key] = self._judge(given, outputs)
            except Exception as error:  # noqa: BLE001 - dtypes that do not go together, say
                pass_on(error)
                self._known[key] = Verdict("It raised.", None)
        return self._known[key]

    def lowered(self, kept: Collection[str]) -> list[str]:
        """The operations that give a lower dtype than in eager, and might be kept."""
        run = _Lowered(self._lowering.graph(kept), self._lowering.captured)
        self._run(run.run, self._inputs())
        return run.names

    def _run(self, run: Callable[..., Any], given: Sequence[Any]) -> Any:
        with dispatch.outside_modes(), torch.no_grad(), self._lowering.on():
            return run(*given)


class _Lowered(Interpreter):
    """Takes down the names of operations that give a lower dtype than the captured graph has."""

    def __init__(self, graph: GraphModule, captured: GraphModule) -> None:
        super().__init__(graph)
        self._captured = {node.name: node for node in captured.graph.nodes}
        self.names: list[str] = []

    def run_node(self, n: Node) -> Any:
        result, own = super().run_node(n), self._captured.get(n.name)
        if own and _is_lower(result, own.meta.get("example_value")) and _can_be_kept(own):
            self.names.append(n.name)
        return result


def _is_lower(result: Any, usual: Any) -> bool:
    if isinstance(result, (tuple, list)) and isinstance(usual, (tuple, list)):
        return any(map(_is_lower, result, usual))
    return (
        isinstance(result, torch.Tensor)
        and isinstance(usual, torch.Tensor)
        and result.is_floating_point()
        and usual.is_floating_point()
        and result.element_size() < usual.element_size()
    )


def _can_be_kept(node: Node) -> bool:
    """Whether it computes, and gives all it does as its result; a view computes nothing."""
    computes = node.op.startswith("call_") and root_of(node) is node
    return computes and not (fx_nodes.is_higher_order(node.target) or any(effects.of_node(node)))
