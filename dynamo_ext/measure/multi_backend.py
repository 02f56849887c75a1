"""Every captured graph compiled by several backends at once, with a switch for each graph.

Graphs can then be raced one by one on the inputs that they really get, and the code as a whole
run with any choice of backends.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import calibration, effects
from dynamo_ext.backends.fx_graph import own_copy
from dynamo_ext.backends.journal import Journal, active
from dynamo_ext.backends.pipeline.checkpointing import keep_random_state
from dynamo_ext.backends.precision import of
from dynamo_ext.interruptions import failures, suppressed
from dynamo_ext.measure import accuracy
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.progress import Board
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.tensor_state import precision
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import Speedup
from dynamo_ext.timing import clock
from dynamo_ext.timing.race import TimedCallable
from dynamo_ext.torch_private.entered_modes import forward_of

EAGER = "eager"


@dataclass
class MultiBackendGraph:
    """One captured graph and what each backend made of it.

    ``active`` names the one that runs. ``inputs`` are the arguments of the first call, and ``grad``
    whether gradients were on in it.
    """

    number: int
    graph: GraphModule
    compiled: dict[str, Callable[..., Any]]
    journals: dict[str, Journal] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    precisions: dict[str, str] = field(default_factory=dict)
    active: str = EAGER
    inputs: tuple[Any, ...] | None = None
    grad: bool = True
    calls: int = 0

    def __call__(self, *args: Any) -> Any:
        """Run the chosen backend's variant."""
        if calibration.is_active():
            return self.calibrate(args)
        self.calls += 1
        if self.inputs is None:
            self.inputs, self.grad = args, torch.is_grad_enabled()
        return self.compiled[self.active](*args)

    def calibrate(self, args: Sequence[Any]) -> Any:
        """Have the variants in int8 calibrate on a call's inputs; eager gives the results.

        Where the graph has effects, which would come about several times, eager alone is called.
        """
        lowered = [name for name, chosen in self.precisions.items() if chosen == "int8"]
        for name in () if any(effects.of_graph(self.graph)) else lowered:
            with suppressed(Exception):
                self.compiled[name](*args)
        return self.compiled[EAGER](*args)

    def journal(self, name: str) -> Journal:
        """A backend's journal; an empty one where it has compiled nothing."""
        return self.journals.get(name) or Journal()


class MultiBackendCompiler:
    """A compiler for Dynamo that gives every graph to several compilers, by their names."""

    def __init__(self, compilers: Mapping[str, Any]) -> None:
        self.name = "several backends"
        self.__name__ = self.name
        self._compilers = dict(compilers)
        self.switches: list[MultiBackendGraph] = []

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one captured graph with each (Dynamo's backend contract)."""
        keep_random_state(graph)
        switch = MultiBackendGraph(len(self.switches), graph, {EAGER: forward_of(graph)})
        compile_into(switch, self._compilers, inputs)
        self.switches.append(switch)
        return switch

    def choose(self, choice: Mapping[int, str]) -> None:
        """Set every switch by the number of its graph; eager where there is no such variant."""
        for switch in self.switches:
            wanted = choice.get(switch.number, EAGER)
            switch.active = wanted if wanted in switch.compiled else EAGER


def compile_into(
    switch: MultiBackendGraph,
    compilers: Mapping[str, Any],
    inputs: Sequence[Any],
    board: Board | None = None,
) -> None:
    """Add each compiler's variant of the switch's graph; a failure is kept in ``errors``."""
    board = board or Board(f"g{switch.number}", compilers)
    for name, compiler in compilers.items():
        board.begin("compiling", name, "compiling")
        journal = Journal(f"{name}-{switch.number}")
        try:
            with active(journal, board.doing):
                switch.compiled[name] = compiler(own_copy(switch.graph), inputs)
        except failures() as error:  # others may still compile it
            switch.errors[name] = error
            board.end(name, one_line(error))
            continue
        board.end(name)
        switch.journals[name] = journal
        switch.precisions[name] = of(getattr(compiler, "options", {}))


def runs_in_engine(switch: MultiBackendGraph, name: str) -> bool:
    """Whether any operation of this graph runs in the engine, as far as its journal tells."""
    journal = switch.journal(name)
    if journal.partitions:
        return any(part.engine != EAGER for part in journal.partitions.values())
    whole = {"unavailable", "lower", "verify"}
    return not any(
        f.scope == "graph" and (f.stage in whole or (f.stage == "unsupported" and not f.operator))
        for f in journal.fallbacks.values()
    )


@dataclass
class GraphCandidate(TimedCallable):
    """A variant of a graph, which takes part until it has an ``outcome``.

    A ``call`` gives its results by name. ``max_error`` is the largest relative error against eager.
    ``lower`` is the precision that it computes in, where that is not the code's own.
    """

    call: Callable[[], Mapping[str, Any]]
    outcome: str = ""
    reason: str = ""
    lower: str = FULL
    max_error: float = 0.0

    def drop_out(self, outcome: str, reason: str) -> None:
        """Take no further part."""
        self.outcome, self.reason = outcome, reason

    def results(self, surroundings: Surroundings) -> accuracy.Results:
        """What a call gives, with the random numbers of ``surroundings``."""
        surroundings.restore_random()
        return accuracy.collect(self.call())

    def check(
        self,
        eager: Self,
        expected: accuracy.Results,
        surroundings: Surroundings,
        tensors: Iterable[Any],
        bound: AccuracyBound | None = None,
    ) -> None:
        """Run it once; where it fails or its results are wrong, it drops out.

        Where eager's tolerance does not decide, ``eager`` runs again with ``tensors`` in float64.
        ``bound`` is what a lower precision must meet, besides its own.
        """
        if self.outcome:
            return
        try:
            found = self.results(surroundings)
        except failures() as error:  # a candidate that fails has lost
            self.drop_out("failed", one_line(error))
            return
        judged = accuracy.against(found, expected)
        self.max_error = judged.max_rel
        lower = self.lower != FULL
        if judged.within and not (lower and bound):
            return
        held = [each for each in tensors if isinstance(each, torch.Tensor)]
        exact: accuracy.Results = {}
        # Not every graph runs in float64.
        with suppressed(Exception), precision(held, torch.float64):
            exact = eager.results(surroundings)
        if lower:
            wrong = accuracy.lowered(found, expected, exact, self.lower, bound).detail
        else:
            wrong = judged.detail if accuracy.no_better_than_eager(found, expected, exact) else ""
        if wrong:
            self.drop_out("wrong", wrong)


def winner_of(speedups: Mapping[str, Speedup]) -> str:
    """The fastest of those that are faster than eager beyond noise; eager where none is.

    ``speedups`` are those of the variants that reached the finish, right and timed, over eager.
    """
    faster = {name: each.ratio for name, each in speedups.items() if each.verdict == "faster"}
    return max(faster, key=lambda name: faster[name], default=EAGER)


def graph_candidates(
    switch: MultiBackendGraph,
    call_of: Callable[[Callable[..., Any]], Callable[[], Mapping[str, Any]]],
) -> list[GraphCandidate]:
    """Every variant of a graph, eager first, and those that did not compile as failed ones.

    ``call_of`` gives a call of a variant.
    """
    wait = clock.device_barrier()
    variants = sorted(switch.compiled.items(), key=lambda item: item[0] != EAGER)
    found = [
        GraphCandidate(name, call_of(variant), wait=wait, lower=switch.precisions.get(name, FULL))
        for name, variant in variants
    ]
    return found + [
        GraphCandidate(name, found[0].call, outcome="failed", reason=one_line(error))
        for name, error in switch.errors.items()
    ]


def without_history(value: Any) -> Any:
    """The same memory as a leaf: a backward pass must not go on into what the user computed before.

    It would free that graph: one input may have been computed from another. Nor are hooks called.
    """
    if isinstance(value, torch.Tensor) and value.requires_grad:
        return value.detach().requires_grad_()
    return value


def with_gradients(variant: Callable[..., Any], *args: Any) -> dict[str, Any]:
    """What a graph gives, and the gradients of its inputs where each element of that has 1.

    Not by ``backward()``, which would leave them with the user's own weights.
    """
    outputs = variant(*args)
    results, leaves = (
        [each for each in values if isinstance(each, torch.Tensor) and each.requires_grad]
        for values in (outputs, args)
    )
    if not (results and leaves):
        return {"outputs": outputs}
    ones = list(map(torch.ones_like, results))
    found = torch.autograd.grad(results, leaves, ones, allow_unused=True)
    return {"outputs": outputs, "gradients": found}
