"""The race for one graph: every contestant compiled, checked, timed; the best one named."""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.auto import heats
from dynamo_ext.auto.heats import Lane
from dynamo_ext.auto.placing import MATTERS, place, winner_of
from dynamo_ext.backends.whole import held_tensors
from dynamo_ext.measure import accuracy, clock, entrant
from dynamo_ext.measure.race import Contender
from dynamo_ext.measure.snapshot import Snapshot
from dynamo_ext.measure.surroundings import Surroundings
from dynamo_ext.measure.switchboard import EAGER, Switch, runs_in_engine
from dynamo_ext.records import Contest, Contestant

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.comparison import Speedup

LOOSE = 0.25
"""Width of an interval, as a share, that leaves a race undecided."""


def hold(switch: Switch, args: Sequence[Any], budget: float) -> Contest:
    """Race every form of a graph on the inputs of a real call.

    The inputs are as before when it returns, and so are the random states.

    Parameters
    ----------
    switch
        The graph and its compiled forms; ``eager`` is one of them.
    args
        The inputs of the call, tensors and numbers.
    budget
        Seconds for the timing.

    Returns
    -------
    Contest
        The winner: the fastest right contestant that is faster than eager beyond noise, or eager.
    """
    started = time.perf_counter()
    surroundings = Surroundings()
    snapshot = Snapshot({"inputs": list(args), "held": held_tensors(switch.graph)})
    lanes = [Lane(name, form) for name, form in switch.compiled.items()]
    lanes.sort(key=lambda lane: lane.name != EAGER)
    try:
        expected = _outcome_of(lanes[0], args, surroundings)
        changes = snapshot.restore(thorough=True)
        for lane in lanes[1:]:
            _check(lane, switch, args, expected, surroundings)
            snapshot.restore(thorough=True)
        running = [lane for lane in lanes if not lane.outcome]
        for lane in running:
            before = snapshot.restore if changes else None
            call = _call(lane.form, args)
            lane.contender = Contender(lane.name, call, before, clock.device_barrier())
        heats.run(running, budget)
    finally:
        snapshot.restore(thorough=True)
        surroundings.restore_random()
    failed = tuple(
        Contestant(name, "failed", reason=entrant.one_line(error))
        for name, error in switch.errors.items()
    )
    return _judge(lanes, failed, time.perf_counter() - started)


def trains(args: Sequence[Any]) -> bool:
    """Whether a backward pass may follow a call."""
    return torch.is_grad_enabled() and any(
        isinstance(value, torch.Tensor) and value.requires_grad for value in args
    )


def _call(form: Callable[..., Any], args: Sequence[Any]) -> Callable[[], object]:
    """One call as the user's code makes it: with its backward pass where one follows."""
    if not torch.is_grad_enabled():
        return lambda: form(*args)
    leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
    if not leaves:
        return lambda: form(*args)

    def both() -> object:
        loss = _loss(form(*args))
        # Not backward(), which would leave gradients with the user's own weights.
        return torch.autograd.grad(loss, leaves, allow_unused=True) if loss is not None else None

    return both


def _loss(outputs: Any) -> torch.Tensor | None:
    parts = [o.float().sum() for o in outputs if isinstance(o, torch.Tensor) and o.grad_fn]
    return torch.stack(parts).sum() if parts else None


def _outcome_of(lane: Lane, args: Sequence[Any], surroundings: Surroundings) -> accuracy.Results:
    surroundings.restore_random()
    outputs = lane.form(*args)
    found: dict[str, Any] = {"outputs": list(outputs)}
    if torch.is_grad_enabled():
        leaves = [a for a in args if isinstance(a, torch.Tensor) and a.requires_grad]
        loss = _loss(outputs) if leaves else None
        if loss is not None:
            grads = torch.autograd.grad(loss, leaves, allow_unused=True)
            found["gradients"] = [g for g in grads if g is not None]
    return accuracy.collect(found)


def _check(
    lane: Lane,
    switch: Switch,
    args: Sequence[Any],
    expected: accuracy.Results,
    surroundings: Surroundings,
) -> None:
    """Run a form once; note why it cannot take part, if it cannot."""
    try:
        found = _outcome_of(lane, args, surroundings)
    except Exception as error:  # noqa: BLE001 - a failing contestant has lost
        lane.outcome, lane.reason = "failed", entrant.one_line(error)
        return
    judged = accuracy.against(found, expected)
    lane.error = judged.max_rel
    if not judged.within and not accuracy.as_good_in_float64(
        lambda: _outcome_of(Lane(EAGER, switch.compiled[EAGER]), args, surroundings),
        [value for value in args if isinstance(value, torch.Tensor)],
        found,
        expected,
    ):
        lane.outcome, lane.reason = "wrong", judged.detail
    elif not runs_in_engine(switch, lane.name):
        reasons = [f.message or f.exception for f in switch.fallbacks(lane.name)]
        lane.outcome, lane.reason = "eager", (reasons or ["It took no operation."])[0]


def _judge(lanes: list[Lane], failed: tuple[Contestant, ...], seconds: float) -> Contest:
    base = lanes[0].contender
    for lane in lanes[1:]:
        if lane.contender is not None and lane.contender.error is not None:
            lane.outcome, lane.reason = "failed", entrant.one_line(lane.contender.error)
    speedups = heats.speedups_of(lanes)
    winner = winner_of(
        {lane.name: speedups[lane.name] for lane in lanes if _finished(lane, speedups)}
    )
    rows = tuple(_row(lane, speedups.get(lane.name), winner) for lane in lanes)
    return Contest(
        winner,
        rows + failed,
        raced_on=dt.datetime.now(tz=dt.UTC).date().isoformat(),
        rounds=len(base.samples) if base else 0,
        seconds=seconds,
        note=_doubt(lanes, speedups, winner),
    )


def _doubt(lanes: list[Lane], speedups: dict[str, Speedup], winner: str) -> str:
    """What keeps a race from being remembered; empty where its answer can be trusted.

    Who is faster than eager beyond noise is worth remembering, even where another one may be
    faster still: to race again at every start would cost more than there is between the two. Not
    so eager where others may be faster, for all that can be told.
    """
    if winner != EAGER:
        return ""
    last = [speedups[lane.name] for lane in lanes if _finished(lane, speedups)]
    if any(s.high > 1 + MATTERS and s.high / s.low > 1 + LOOSE for s in last):
        return "The machine was too busy to tell; the race is not remembered."
    return ""


def _finished(lane: Lane, speedups: dict[str, Speedup]) -> bool:
    return not lane.outcome and lane.name in speedups


def _row(lane: Lane, speedup: Speedup | None, winner: str) -> Contestant:
    timing = lane.contender.timing if lane.contender else None
    return place(
        lane.name,
        winner,
        outcome=lane.outcome,
        reason=lane.reason,
        seconds=timing.median if timing else 0.0,
        speedup=speedup,
        error=lane.error,
    )
