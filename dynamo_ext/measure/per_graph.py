"""Every captured graph on every candidate, the best choice for each, and what that is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.backends.whole import held_tensors
from dynamo_ext.capture import run_log, torch_private, tracing
from dynamo_ext.comparison import GraphComparison, GraphTime, Mix, Outcome
from dynamo_ext.measure import accuracy, clock, entrant, statistics
from dynamo_ext.measure.race import Contender, Plan, race
from dynamo_ext.measure.snapshot import Snapshot
from dynamo_ext.measure.switchboard import EAGER, Switch, Switchboard, runs_in_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.measure.candidates import Candidate
    from dynamo_ext.measure.compare import Settings, Show
    from dynamo_ext.measure.workload import Workload

SMALLEST_SHARE = 0.2
"""Of the time given to single graphs, what the whole code with the mix gets."""

SLACK = 0.05
"""How far below the prediction the whole code may stay before the sum does not hold."""


@dataclass(frozen=True)
class Found:
    """The graphs' times, and the mix made of the fastest."""

    graphs: tuple[GraphComparison, ...] = ()
    mix: Mix | None = None


def race_graphs(
    workload: Workload,
    candidates: list[Candidate],
    base: Contender,
    settings: Settings,
    progress: Show | None,
) -> Found:
    """Race each graph by itself, then the code with the best choice against the plain code.

    Graphs that change their inputs in place are not raced by themselves and stay with eager.
    """
    board = Switchboard({c.name: c.compiler for c in candidates})
    tracer = tracing.optimizing(board, board.name, names=workload.names)
    region = torch_private.new_region()
    call = workload.traced(tracer, region)
    run = run_log.Run()
    with run_log.Recording(run), tracer.surroundings():
        for _ in range(1 + entrant.WARM_UPS):
            for switch in board.switches:
                switch.calls, switch.inputs = 0, None
            workload.restore()
            call()
    try:
        return _race(board, workload, call, base, settings, progress)
    finally:
        workload.restore(thorough=True)
        for entry in run.compiled:
            code = entry.code()
            if code is not None:
                torch_private.forget_region(code, region)
        tracing.forget(board)


def _race(  # noqa: PLR0913, PLR0917 - the pieces of one race
    board: Switchboard,
    workload: Workload,
    call: Callable[[], object],
    base: Contender,
    settings: Settings,
    progress: Show | None,
) -> Found:
    called = [switch for switch in board.switches if switch.calls]
    share = settings.budget * (1 - SMALLEST_SHARE) / max(len(called), 1)
    graphs = []
    for switch in called:
        with torch.set_grad_enabled(switch.grad):
            graphs.append(_graph(switch, share, settings, progress))
    choice = {s.number: g.fastest for s, g in zip(called, graphs, strict=True) if g.fastest}
    mix = _mix(board, choice, graphs, workload, call, base, settings)
    return Found(tuple(graphs), mix)


def _graph(
    switch: Switch, budget: float, settings: Settings, progress: Show | None
) -> GraphComparison:
    inputs = tuple(_own(value) for value in switch.inputs or ())
    snapshot = Snapshot({"inputs": list(inputs), "held": held_tensors(switch.graph)})
    expected, eager_error = _results(switch.compiled[EAGER], inputs)
    changes = snapshot.restore(thorough=True)
    contenders: list[Contender] = []
    broken: dict[str, str] = {n: entrant.one_line(e) for n, e in switch.errors.items()}
    outcomes: dict[str, Outcome] = dict.fromkeys(broken, "failed")
    if eager_error or changes:
        reason = eager_error or "It changes its inputs in place, so it was not raced by itself."
        times = tuple(GraphTime(n, "unmeasured", reason=reason) for n in switch.compiled)
        return _comparison(switch, times, "")
    for name, form in switch.compiled.items():
        found, error = _results(form, inputs)
        if error:
            broken[name], outcomes[name] = error, "failed"
            continue
        judged = accuracy.against(found, expected)
        if not judged.within and not accuracy.as_good_in_float64(
            lambda: _results(switch.compiled[EAGER], inputs)[0],
            [*(v for v in inputs if isinstance(v, torch.Tensor)), *held_tensors(switch.graph)],
            found,
            expected,
        ):
            broken[name], outcomes[name] = judged.detail, "wrong"
            continue
        outcomes[name] = "measured" if name == EAGER or runs_in_engine(switch, name) else "eager"
        contenders.append(Contender(name, _bound(form, inputs), wait=clock.device_barrier()))
    contenders.sort(key=lambda each: each.name != EAGER)
    race(contenders, Plan(budget, seed=settings.seed, rounds=settings.rounds), progress=progress)
    times = tuple(_time(each, contenders, outcomes) for each in contenders)
    times += tuple(
        GraphTime(name, outcomes[name], reason=reason) for name, reason in broken.items()
    )
    faster = [
        t
        for t in times
        if t.speedup and t.outcome == "measured" and not t.speedup.same and t.speedup.ratio > 1
    ]
    best = max(faster, key=lambda t: t.speedup.ratio if t.speedup else 0.0, default=None)
    return _comparison(switch, times, best.backend if best else EAGER)


def _time(
    contender: Contender, contenders: list[Contender], outcomes: dict[str, Outcome]
) -> GraphTime:
    if contender.error is not None or not contender.samples:
        reason = entrant.one_line(contender.error) if contender.error else "Time ran out."
        return GraphTime(contender.name, "failed" if contender.error else "unmeasured", None, None,
                         reason)  # fmt: skip
    base = contenders[0]
    speedup = None
    if contender is not base:
        count = min(len(base.samples), len(contender.samples))
        speedup = statistics.speedup(base.samples[:count], contender.samples[:count])
    return GraphTime(contender.name, outcomes[contender.name], contender.timing, speedup)


def _mix(  # noqa: PLR0913, PLR0917 - the pieces of one race
    board: Switchboard,
    choice: dict[int, str],
    graphs: list[GraphComparison],
    workload: Workload,
    call: Callable[[], object],
    base: Contender,
    settings: Settings,
) -> Mix:
    board.choose(choice)
    whole = base.timing.median if base.timing else math.nan
    gain = sum(_gain(graph) * graph.calls for graph in graphs)
    predicted = whole / max(whole - gain, 1e-9)
    plain = Contender(EAGER, base.call, base.before, base.wait)
    mixed = entrant.contender("mix", call, workload)
    plan = Plan(max(settings.budget * SMALLEST_SHARE, 2.0), settings.rounds, settings.seed)
    race([plain, mixed], plan)
    speedup = None
    if mixed.samples and mixed.error is None:
        speedup = statistics.speedup(plain.samples[: len(mixed.samples)], mixed.samples)
    holds = speedup is not None and speedup.high >= predicted * (1 - SLACK)
    named = tuple((f"g{number}", name) for number, name in choice.items())
    return Mix(named, predicted, speedup, holds)


def _gain(graph: GraphComparison) -> float:
    """Seconds that one call of the graph's best form saves."""
    eager = next((t.timing for t in graph.times if t.backend == EAGER), None)
    best = next((t.speedup for t in graph.times if t.backend == graph.fastest), None)
    return eager.median * (1 - 1 / best.ratio) if eager and best else 0.0


def _comparison(switch: Switch, times: tuple[GraphTime, ...], fastest: str) -> GraphComparison:
    return GraphComparison(
        graph=f"g{switch.number}",
        operations=switch.operations,
        calls=switch.calls,
        times=times,
        fastest=fastest,
        source=switch.graph.code.strip(),
    )


def _results(form: Callable[..., Any], inputs: tuple[Any, ...]) -> tuple[dict[str, Any], str]:
    state = torch.get_rng_state()
    try:
        return accuracy.collect({"result": form(*inputs)}), ""
    except Exception as error:  # noqa: BLE001 - one form's failure is its row's reason
        return {}, entrant.one_line(error)
    finally:
        torch.set_rng_state(state)


def _bound(form: Callable[..., Any], inputs: tuple[Any, ...]) -> Callable[[], object]:
    return lambda: form(*inputs)


def _own(value: Any) -> Any:
    """An input that outlives the run it came from; weights stay themselves."""
    if isinstance(value, torch.Tensor) and value.is_leaf and not value.requires_grad:
        return value
    if isinstance(value, torch.nn.Parameter):
        return value
    if isinstance(value, torch.Tensor):
        return value.detach().requires_grad_(value.requires_grad)
    return value
