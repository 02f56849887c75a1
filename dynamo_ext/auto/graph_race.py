"""The race for one graph: every candidate compiled, checked, timed; the best one named."""

import datetime as dt
import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import torch

from dynamo_ext.auto import turns
from dynamo_ext.auto.ranking import is_open, place
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.formatting import count
from dynamo_ext.interruptions import failures
from dynamo_ext.measure import multi_backend
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.progress import Board
from dynamo_ext.measure.state.process_state import Surroundings
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.comparison import BUSY_CORES, Speedup
from dynamo_ext.records.progress import RaceProgress
from dynamo_ext.timing import clock
from dynamo_ext.timing.machine_load import MachineLoad

EXTRA_RACES = 2
"""Races more, where the first one leaves open whether any backend is faster than eager."""


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
            _time([each for each in candidates if not each.outcome], budget, board)
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


def _time(candidates: Sequence[multi_backend.GraphCandidate], budget: float, board: Board) -> None:
    """Time them, eager first, until it is decided; one that drops out has an outcome then."""
    running = list(candidates)
    for _ in range(1 + EXTRA_RACES):
        left = _hold(running, budget, board) if len(running) > 1 else []
        for each in running[1:]:
            if each.name not in left and each.error is None:
                rounds = count(len(each.samples), "round")
                each.drop_out("slower", f"Clearly slower after {rounds}.")
                board.put(each.name, "out", reason=each.reason)
        running = [each for each in running if each.name in left]
        if not is_open(_speedups(running)):
            return


def _hold(
    running: Sequence[multi_backend.GraphCandidate], budget: float, board: Board
) -> list[str]:
    """Time these in turn; the names of those that are left, the fastest first.

    Raises what eager, the first one, raises. ``board`` reports how far it is.
    """
    named, samples = ({e.name: e for e in running}, {e.name: e.samples for e in running})
    # To put back what a call changes takes longer than a short call.
    repeats = running[0].before is None
    race = turns.turns(samples, budget, running[0].name, repeats=repeats)
    with clock.gc_disabled():
        name, shown = next(race), ""
        while True:
            if name != shown:
                shown, candidate = name, named[name]
                number = len(candidate.samples) + 1
                board.timing(RaceProgress("", "timing", name, round=number), running)
            try:
                seconds = candidate.read()
            except failures() as error:  # a candidate that fails has lost
                if candidate is running[0]:
                    raise
                candidate.error, seconds = error, math.inf
            try:
                name = race.send(seconds)
            except StopIteration as ended:
                return list(ended.value)


def _speedups(candidates: Sequence[multi_backend.GraphCandidate]) -> dict[str, Speedup]:
    """Speedups over eager, the first one, of those that were timed with it and did not fail."""
    return {
        each.name: speedup
        for each in candidates
        if each.error is None and (speedup := each.speedup_over(candidates[0])) is not None
    }


def _judge(
    candidates: list[multi_backend.GraphCandidate], seconds: float, busy_cores: float
) -> GraphRace:
    for each in candidates[1:]:
        if each.error is not None:
            each.drop_out("failed", one_line(each.error))
    speedups = _speedups(candidates)
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
    elif is_open(finished):
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
