"""The race for one graph: every candidate compiled, checked, timed; the best one named."""

import datetime as dt
import functools
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from dynamo_ext.auto import elimination
from dynamo_ext.auto.ranking import MATTERS, place
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.measure import multi_backend
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.progress import Board
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.comparison import BUSY_CORES, Speedup
from dynamo_ext.timing.machine_load import MachineLoad

LOOSE = 0.25
"""Width of an interval, as a share, that leaves a race undecided."""


def run_race(
    switch: multi_backend.MultiBackendGraph,
    args: Sequence[Any],
    budget: float,
    bound: AccuracyBound | None = None,
    board: Board | None = None,
) -> GraphRace:
    """Race every variant of a graph, eager among them, on the inputs of a real call.

    The inputs are as before when it returns, and so are the random states. ``budget`` is seconds
    for the timing. The winner is the fastest right candidate that is faster than eager beyond
    noise, or eager. ``bound`` is what results in a lower precision must meet;
    ``board`` reports how far it is.
    """
    board = board or Board("", switch.compiled)
    started = time.perf_counter()
    surroundings = Surroundings()
    snapshot = Snapshot({"inputs": list(args), "held": held_tensors(switch.graph)})
    candidates = multi_backend.graph_candidates(switch, lambda variant: _call(variant, args))
    eager = candidates[0]
    try:
        expected = eager.results(surroundings)
        before = snapshot.restore if snapshot.restore(thorough=True) else None
        for each in candidates:
            each.before = before
        for each in candidates[1:]:
            board.begin("checking", each.name)
            each.check(eager, expected, surroundings, args, bound)
            if not each.outcome and not multi_backend.runs_in_engine(switch, each.name):
                left = switch.journal(each.name).fallbacks.values()
                reasons = [f.message or f.exception for f in left]
                each.drop_out("eager", (reasons or ["It accepted no operation."])[0])
            if each.outcome:
                board.put(each.name, "out", reason=each.reason)
            snapshot.restore(thorough=True)
        with MachineLoad() as company:
            elimination.run([each for each in candidates if not each.outcome], budget, board)
    finally:
        snapshot.restore(thorough=True)
        surroundings.restore_random()
    return _judge(candidates, time.perf_counter() - started, company.cores)


def _call(variant: Callable[..., Any], args: Sequence[Any]) -> Callable[[], dict[str, Any]]:
    """One call as the user's code makes it: with its backward pass where one follows."""
    if not torch.is_grad_enabled():
        return lambda: {"outputs": variant(*args)}
    args = list(map(multi_backend.without_history, args))
    return functools.partial(multi_backend.with_gradients, variant, *args)


def _judge(
    candidates: list[multi_backend.GraphCandidate], seconds: float, busy_cores: float
) -> GraphRace:
    for each in candidates[1:]:
        if each.error is not None:
            each.drop_out("failed", one_line(each.error))
    speedups = elimination.speedups_of(candidates)
    finished = {
        c.name: speedups[c.name] for c in candidates if not c.outcome and c.name in speedups
    }
    winner = multi_backend.winner_of(finished)
    note = ""
    if busy_cores >= BUSY_CORES:
        note = (
            f"Other programs kept {busy_cores:.1f} cores busy while it was timed; the race is not "
            "remembered."
        )
    elif winner == multi_backend.EAGER and _is_doubtful(finished.values()):
        note = "The machine was too busy to tell; the race is not remembered."
    rows = tuple(_row(each, winner, speedups.get(each.name)) for each in candidates)
    today = dt.datetime.now(tz=dt.UTC).date().isoformat()
    return GraphRace(winner, rows, raced_on=today, seconds=seconds, note=note, conclusive=not note)


def _row(
    candidate: multi_backend.GraphCandidate, winner: str, speedup: Speedup | None
) -> GraphCandidateResult:
    outcome, reason = candidate.outcome, candidate.reason
    if not outcome:
        outcome, reason = place(candidate.name, winner, speedup)
    return GraphCandidateResult(
        candidate.name,
        outcome,
        seconds=candidate.timing.median if candidate.timing else 0.0,
        speedup=speedup.ratio if speedup else float(candidate.name == multi_backend.EAGER),
        low=speedup.low if speedup else 0.0,
        high=speedup.high if speedup else 0.0,
        error=candidate.max_error,
        reason=reason,
    )


def _is_doubtful(speedups: Iterable[Speedup]) -> bool:
    """Whether a backend may be faster than eager, which won, within what was measured.

    A backend that won is remembered, even where another one may be faster still: to race again at
    every start would cost more than there is between the two.
    """
    return any(s.high > 1 + MATTERS and s.high / s.low > 1 + LOOSE for s in speedups)
