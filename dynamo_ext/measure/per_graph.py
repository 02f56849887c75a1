"""Every captured graph on every candidate, the best choice for each, and what that is worth."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import torch

from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.capture import tracer as tracing
from dynamo_ext.capture.listen import run_log
from dynamo_ext.capture.torch_private import regions
from dynamo_ext.interruptions import pass_on
from dynamo_ext.measure import accuracy, candidate_run
from dynamo_ext.measure.multi_backend import (
    EAGER,
    GraphCandidate,
    MultiBackendCompiler,
    MultiBackendGraph,
    runs_in_engine,
)
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.records.comparison import GraphComparison, GraphTime, Mix, Outcome
from dynamo_ext.timing import clock
from dynamo_ext.timing.race import Plan, TimedCallable, race

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from dynamo_ext.measure.candidates import Candidate
    from dynamo_ext.measure.settings import Settings, Show
    from dynamo_ext.measure.workload import Workload

SMALLEST_SHARE = 0.2
"""Of the time given to single graphs, what the whole code with the mix gets."""

SLACK = 0.05
"""How far below the prediction the whole code may stay before the sum does not hold."""


def race_graphs(
    workload: Workload,
    candidates: list[Candidate],
    base: TimedCallable,
    settings: Settings,
    progress: Show | None,
) -> tuple[tuple[GraphComparison, ...], Mix]:
    """Race each graph by itself, then the code with the best choice against the plain code.

    Graphs that change their inputs in place are not raced by themselves and stay with eager.
    """
    board = MultiBackendCompiler({c.name: c.compiler for c in candidates})
    tracer = tracing.optimizing(board, board.name, names=workload.names)
    region = regions.new_region()
    call = workload.compiled_call(tracer, region)
    run = run_log.RunLog()
    try:
        with run_log.Recording(run), tracer.surroundings():
            for _ in range(1 + candidate_run.WARM_UPS):
                for switch in board.switches:
                    switch.calls, switch.inputs = 0, None
                workload.restore()
                call()
        called = [switch for switch in board.switches if switch.calls]
        share = settings.budget * (1 - SMALLEST_SHARE) / max(len(called), 1)
        graphs = []
        for switch in called:
            with torch.set_grad_enabled(switch.grad):
                graphs.append(_graph(switch, share, settings, progress))
        board.choose({s.number: g.fastest for s, g in zip(called, graphs, strict=True)})
        mixed = candidate_run.timed_callable("mix", call, workload)
        return tuple(graphs), _mix(mixed, graphs, base, settings)
    finally:
        workload.restore(thorough=True)
        for entry in run.compiled:
            code = entry.code()
            if code is not None:
                regions.forget_region(code, region)
        tracing.forget(board)


def _graph(
    switch: MultiBackendGraph, budget: float, settings: Settings, progress: Show | None
) -> GraphComparison:
    inputs = tuple(_own(value) for value in switch.inputs or ())
    tensors = [*inputs, *held_tensors(switch.graph)]
    snapshot = Snapshot({"tensors": tensors})
    barrier = clock.device_barrier()
    names = sorted(switch.compiled, key=lambda name: name != EAGER)
    calls = {name: partial(switch.compiled[name], *inputs) for name in names}
    candidates = [GraphCandidate(name, call, wait=barrier) for name, call in calls.items()]
    results = {name: partial(_results, call) for name, call in calls.items()}
    found = GraphComparison(
        f"g{switch.number}", switch.operations, switch.calls, (), source=switch.graph.code.strip()
    )
    try:
        expected, reason = results[EAGER](), ""
    except Exception as error:  # noqa: BLE001 - its failure is every row's reason
        pass_on(error)
        reason = candidate_run.one_line(error)
    if snapshot.restore(thorough=True) and not reason:
        reason = "It changes its inputs in place, so it was not raced by itself."
    if reason:
        return replace(
            found, times=tuple(GraphTime(name, "unmeasured", reason=reason) for name in names)
        )
    for each in candidates[1:]:
        each.check(results[each.name], results[EAGER], expected, tensors)
    running = [each for each in candidates if not each.outcome]
    race(running, Plan(budget, seed=settings.seed, rounds=settings.rounds), progress=progress)
    times = [_time(each, candidates[0], switch) for each in candidates]
    times += [
        GraphTime(name, "failed", reason=candidate_run.one_line(error))
        for name, error in switch.errors.items()
    ]
    return replace(found, times=tuple(times), fastest=fastest(times))


def fastest(times: Iterable[GraphTime]) -> str:
    """The backend of the fastest right variant; eager where none is faster."""
    faster = {
        time.backend: time.speedup.ratio
        for time in times
        if time.outcome == "measured" and time.speedup and time.speedup.verdict == "faster"
    }
    return max(faster, key=lambda name: faster[name], default=EAGER)


def _time(each: GraphCandidate, eager: GraphCandidate, switch: MultiBackendGraph) -> GraphTime:
    if each.outcome:
        return GraphTime(each.name, cast("Outcome", each.outcome), reason=each.reason)
    if each.error is not None:
        return GraphTime(each.name, "failed", reason=candidate_run.one_line(each.error))
    if not each.samples:
        return GraphTime(each.name, "unmeasured", reason="Time ran out.")
    in_engine = each is eager or runs_in_engine(switch, each.name)
    outcome: Outcome = "measured" if in_engine else "eager"
    return GraphTime(each.name, outcome, each.timing, each.speedup_over(eager))


def _mix(
    mixed: TimedCallable, graphs: list[GraphComparison], base: TimedCallable, settings: Settings
) -> Mix:
    whole = base.timing.median if base.timing else math.nan
    gain = sum(_gain(graph) * graph.calls for graph in graphs)
    predicted = whole / max(whole - gain, 1e-9)
    plain = TimedCallable(EAGER, base.call, base.before, base.wait)
    plan = Plan(max(settings.budget * SMALLEST_SHARE, 2.0), settings.rounds, settings.seed)
    race([plain, mixed], plan)
    speedup = mixed.speedup_over(plain) if mixed.error is None else None
    holds = speedup is not None and speedup.high >= predicted * (1 - SLACK)
    named = tuple((graph.graph, graph.fastest) for graph in graphs if graph.fastest)
    return Mix(named, predicted, speedup, holds)


def _gain(graph: GraphComparison) -> float:
    """Seconds that one call of the graph's best variant saves."""
    eager = next((t.timing for t in graph.times if t.backend == EAGER), None)
    best = next((t.speedup for t in graph.times if t.backend == graph.fastest), None)
    return eager.median * (1 - 1 / best.ratio) if eager and best else 0.0


def _results(call: Callable[[], Any]) -> accuracy.Results:
    state = torch.get_rng_state()
    try:
        return accuracy.collect({"result": call()})
    finally:
        torch.set_rng_state(state)


def _own(value: Any) -> Any:
    """An input that outlives the run it came from; weights stay themselves."""
    if not isinstance(value, torch.Tensor) or isinstance(value, torch.nn.Parameter):
        return value
    if value.is_leaf and not value.requires_grad:
        return value
    return value.detach().requires_grad_(value.requires_grad)
