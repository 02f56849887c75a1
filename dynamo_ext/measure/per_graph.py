"""Every captured graph on every candidate, the best choice for each, and what that is worth."""

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import cast

import torch

from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.interruptions import failures
from dynamo_ext.measure import multi_backend
from dynamo_ext.measure.candidate_run import WARM_UPS, CompiledCandidate, one_line
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.multi_backend import GraphCandidate, MultiBackendGraph
from dynamo_ext.measure.progress import Board
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.measure.workload import Workload
from dynamo_ext.numerics.lowered_precision import BOUNDS
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import GraphComparison, GraphTime, Mix, Outcome
from dynamo_ext.timing.race import Plan, TimedCallable, race

SMALLEST_SHARE = 0.2
"""Of the time given to single graphs, what the whole code with the mix gets."""

SLACK = 0.05
"""How far below the prediction the whole code may stay before the sum does not hold."""


def race_graphs(
    workload: Workload,
    candidates: list[Candidate],
    base: TimedCallable | None,
    settings: Settings,
    seconds_left: Callable[[], float] = lambda: math.inf,
) -> tuple[tuple[GraphComparison, ...], Mix | None]:
    """Race each graph by itself, then the code with the best choice against the plain code.

    Without ``base`` the code runs once, and its graphs alone are raced. ``seconds_left`` gives the
    seconds in which races end, with as few rounds as that takes.

    Graphs that change their inputs in place are not raced by themselves and stay with eager.
    """
    board = multi_backend.MultiBackendCompiler({c.name: c.compiler for c in candidates})
    # Where it is int8, it is calibrated before.
    asked = [FULL, *(each.precision for each in candidates)]
    lowest = max(asked, key=lambda name: BOUNDS.get(name, 0.0))
    mix = Candidate("mix", board.name, board, precision=lowest, bound=settings.bound)
    whole = CompiledCandidate(mix, warm_ups=WARM_UPS if base else 0)
    try:
        whole.compile(workload, check_on=settings.check_on)
        if (mixed := whole.make_timed(workload)) is None:
            raise RuntimeError(whole.failure)
        # Copies that nothing is compared with.
        whole.results = None
        if base is not None:
            for switch in board.switches:
                switch.calls, switch.inputs = 0, None
            workload.restore()
            mixed.call()
        called = [switch for switch in board.switches if switch.calls]
        share = settings.budget * (1 - SMALLEST_SHARE) / max(len(called), 1)
        graphs = []
        for after, switch in zip(range(len(called), 0, -1), called, strict=True):
            plan = Plan(share, settings.rounds, settings.seed, limit=seconds_left() / (after + 1))
            with torch.set_grad_enabled(switch.grad):
                graphs.append(_graph(switch, plan, settings))
        if base is None:
            return tuple(graphs), None
        board.choose({s.number: g.fastest for s, g in zip(called, graphs, strict=True)})
        spare = max(settings.budget * SMALLEST_SHARE, 2.0)
        plan = Plan(spare, settings.rounds, settings.seed, limit=seconds_left())
        return tuple(graphs), _mix(mixed, graphs, base, plan)
    finally:
        workload.restore(thorough=True)
        whole.release()


def _graph(switch: MultiBackendGraph, plan: Plan, settings: Settings) -> GraphComparison:
    inputs = tuple(map(multi_backend.without_history, switch.inputs or ()))
    tensors = [*inputs, *held_tensors(switch.graph)]
    snapshot = Snapshot({"tensors": tensors})
    candidates = multi_backend.graph_candidates(
        switch, lambda variant: lambda: {"result": variant(*inputs)}
    )
    eager, surroundings = candidates[0], Surroundings()
    operations = sum(node.op.startswith("call_") for node in switch.graph.graph.nodes)
    source = switch.graph.code.strip()
    found = GraphComparison(f"g{switch.number}", operations, switch.calls, (), source=source)
    try:
        expected, reason = eager.results(surroundings), ""
    except failures() as error:  # its failure is every row's reason
        reason = one_line(error)
    if snapshot.restore(thorough=True) and not reason:
        reason = "It changes its inputs in place, so it was not raced by itself."
    if reason:
        times = [GraphTime(each.name, "unmeasured", reason=reason) for each in candidates]
        return replace(found, times=tuple(times))
    bound = settings.bound and settings.bound.of_graphs
    for each in candidates[1:]:
        each.check(eager, expected, surroundings, tensors, bound)
    running = [each for each in candidates if not each.outcome]
    board = Board(found.graph, [each.name for each in running])
    race(running, plan, progress=lambda step: board.timing(step, running))
    times = [_time(each, eager, switch) for each in candidates]
    return replace(found, times=tuple(times), fastest=fastest(times))


def fastest(times: Iterable[GraphTime]) -> str:
    """The backend of the fastest right variant; eager where none is faster."""
    measured = (time for time in times if time.outcome == "measured")
    return multi_backend.winner_of(
        {time.backend: time.speedup for time in measured if time.speedup}
    )


def _time(candidate: GraphCandidate, eager: GraphCandidate, switch: MultiBackendGraph) -> GraphTime:
    if candidate.outcome:
        return GraphTime(
            candidate.name, cast("Outcome", candidate.outcome), reason=candidate.reason
        )
    if candidate.error is not None:
        return GraphTime(candidate.name, "failed", reason=one_line(candidate.error))
    if not candidate.samples:
        return GraphTime(candidate.name, "unmeasured", reason="Time ran out.")
    in_engine = candidate is eager or multi_backend.runs_in_engine(switch, candidate.name)
    outcome: Outcome = "measured" if in_engine else "eager"
    return GraphTime(candidate.name, outcome, candidate.timing, candidate.speedup_over(eager))


def _mix(
    mixed: TimedCallable, graphs: list[GraphComparison], base: TimedCallable, plan: Plan
) -> Mix:
    whole = base.timing.median if base.timing else math.nan
    gain = sum(_gain(graph) * graph.calls for graph in graphs)
    predicted = whole / max(whole - gain, 1e-9)
    plain = TimedCallable(multi_backend.EAGER, base.call, base.before, base.wait)
    race([plain, mixed], plan)
    speedup = mixed.speedup_over(plain) if mixed.error is None else None
    holds = speedup is not None and speedup.high >= predicted * (1 - SLACK)
    named = tuple((graph.graph, graph.fastest) for graph in graphs if graph.fastest)
    return Mix(named, predicted, speedup, holds)


def _gain(graph: GraphComparison) -> float:
    """Seconds that one call of the graph's best variant saves."""
    eager = next((t.timing for t in graph.times if t.backend == multi_backend.EAGER), None)
    best = next((t.speedup for t in graph.times if t.backend == graph.fastest), None)
    return eager.median * (1 - 1 / best.ratio) if eager and best else 0.0
