"""The heats and the final of a race: who drops out when, and how long it goes on."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto.placing import is_open
from dynamo_ext.measure import statistics
from dynamo_ext.measure.race import Contender, Plan, race
from dynamo_ext.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.comparison import Speedup

HEATS = ((1, 0.5), (4, 0.75))
"""Rounds of everybody, and the share of the best speedup below which one drops out after them."""

LEADERS = 3
"""How many go on from the heats where the budget does not last for all."""

FEWEST = 12
"""Rounds of the final, at least: with fewer, a tenth more or less is noise."""

TIGHT = 0.015

FURTHER = 3
"""Finals more, where the first one leaves open whether anybody is faster than eager."""


@dataclass
class Lane:
    """One contestant's form of the graph."""

    name: str
    form: Callable[..., Any]
    contender: Contender | None = None
    outcome: str = ""
    reason: str = ""
    error: float = 0.0


def run(running: list[Lane], budget: float) -> None:
    """Race until it is decided; whoever drops out has an outcome then.

    Parameters
    ----------
    running
        Who takes part, eager first.
    budget
        Seconds; of a graph so slow that they last for few rounds, as many as ``FEWEST`` rounds of
        eager and the fastest ``LEADERS`` need; and as many again, up to ``FURTHER`` times, while
        somebody seems faster than eager and cannot be told from noise.
    """
    started = time.perf_counter()
    left = [lane for lane in running if lane.contender is not None]
    for rounds, behind in HEATS:
        if len(left) > 1:
            left = _heat(left, rounds, behind, budget)
    remaining = budget - (time.perf_counter() - started)
    if FEWEST * _round(left) > remaining:
        left = _leaders(left)
    if len(left) > 1:
        contenders = [lane.contender for lane in left if lane.contender is not None]
        least = FEWEST * _round(left)
        race(contenders, Plan(max(remaining, least), tight=TIGHT, fewest=FEWEST, seed=1))
        for seed in range(2, 2 + FURTHER):
            if not is_open(speedups_of(left)):
                break
            race(contenders, Plan(budget, rounds=FEWEST, seed=seed))


def _round(lanes: list[Lane]) -> float:
    """Seconds that a round of these takes."""
    contenders = [lane.contender for lane in lanes if lane.contender is not None]
    return sum(c.samples[-1] * c.calls for c in contenders if c.samples)


def _heat(lanes: list[Lane], rounds: int, behind: float, budget: float) -> list[Lane]:
    """Some rounds of everybody; who goes on."""
    contenders = [lane.contender for lane in lanes if lane.contender is not None]
    race(contenders, Plan(budget, rounds=rounds))
    speedups = speedups_of(lanes)
    # By what one may come to at best: a noisy machine must not cost anybody the race.
    bar = max([1.0, *(speedup.ratio for speedup in speedups.values())]) * behind
    left = lanes[:1]
    for lane in lanes[1:]:
        if lane.name not in speedups:
            continue
        if speedups[lane.name].high >= bar:
            left.append(lane)
        else:
            _fall_behind(lane)
    return left


def _leaders(lanes: list[Lane]) -> list[Lane]:
    """Eager and the fastest: so slow a graph has no time for more."""
    speedups = speedups_of(lanes)
    ranked = sorted(lanes[1:], key=lambda lane: -speedups[lane.name].ratio)
    for lane in ranked[LEADERS:]:
        _fall_behind(lane)
    return [*lanes[:1], *ranked[:LEADERS]]


def _fall_behind(lane: Lane) -> None:
    rounds = len(lane.contender.samples) if lane.contender else 0
    lane.outcome, lane.reason = "slower", f"Behind after {count(rounds, 'round')}."


def speedups_of(lanes: list[Lane]) -> dict[str, Speedup]:
    """Speedups over eager, of those that were timed with it and did not fail."""
    base = lanes[0].contender.samples if lanes[0].contender else []
    return {
        lane.name: statistics.speedup(base[: len(lane.contender.samples)], lane.contender.samples)
        for lane in lanes[1:]
        if lane.contender is not None and lane.contender.samples and lane.contender.error is None
    }
