"""The heats and the final of a race: which backends drop out when, and how long it goes on.

For instance, with speedups over eager::

    after 1 round    inductor 1.9   onnxrt 1.6   openvino 2.0   ts 0.7     ts: below half of 2.0
    after 4 more     inductor 1.9   onnxrt 1.4   openvino 2.0              onnxrt: below 3/4 of it
    final            inductor 1.84 to 1.90       openvino 1.97 to 2.02     openvino has won
"""

import functools
import statistics
import time
from collections.abc import Collection

from dynamo_ext.auto.ranking import is_open
from dynamo_ext.formatting import count
from dynamo_ext.measure.multi_backend import GraphCandidate
from dynamo_ext.measure.progress import Board
from dynamo_ext.records.comparison import Speedup
from dynamo_ext.timing.race import Plan, race

ELIMINATION_ROUNDS = ((1, 0.5), (4, 0.75))
"""Rounds of all backends, and the share of the best speedup below which one drops out after."""

MAX_FINALISTS = 3
"""How many go on from the heats where the budget does not last for all."""

MIN_FINAL_ROUNDS = 12
"""Rounds of the final, at least: with fewer, a tenth more or less is noise."""

TARGET_HALF_WIDTH = 0.015

EXTRA_FINALS = 3
"""Finals more, where the first one leaves open whether anybody is faster than eager."""


def run(running: list[GraphCandidate], budget: float, board: Board) -> None:
    """Race until it is decided, eager first; a backend that drops out has an outcome then.

    ``budget`` is seconds; of a graph so slow that they last for few rounds, as many as
    ``MIN_FINAL_ROUNDS`` rounds of eager and the fastest ``MAX_FINALISTS`` need; and as many again,
    up to ``EXTRA_FINALS`` times, while a backend seems faster than eager, but within noise.
    ``board`` reports how far it is.
    """
    started = time.perf_counter()
    left = running
    for rounds, behind in ELIMINATION_ROUNDS:
        if len(left) > 1:
            left = _heat(left, Plan(budget, rounds=rounds), behind, board)
    remaining = budget - (time.perf_counter() - started)
    if MIN_FINAL_ROUNDS * _round_seconds(left) > remaining:
        # So slow a graph has no time for more.
        speedups = speedups_of(left)
        ranked = sorted(speedups, key=lambda name: -speedups[name].ratio)
        left = _only(ranked[:MAX_FINALISTS], left, board)
    if len(left) > 1:
        show = functools.partial(board.timing, running=left)
        given = max(remaining, MIN_FINAL_ROUNDS * _round_seconds(left))
        plan = Plan(given, tight=TARGET_HALF_WIDTH, fewest=MIN_FINAL_ROUNDS, seed=1)
        race(left, plan, progress=show)
        for seed in range(2, 2 + EXTRA_FINALS):
            if not is_open(speedups_of(left)):
                break
            race(left, Plan(budget, rounds=MIN_FINAL_ROUNDS, seed=seed), progress=show)


def _round_seconds(candidates: list[GraphCandidate]) -> float:
    return sum(each.samples[-1] * each.calls for each in candidates if each.samples)


def _heat(
    candidates: list[GraphCandidate], plan: Plan, behind: float, board: Board
) -> list[GraphCandidate]:
    """Run some rounds of all backends; return those that go on."""
    race(candidates, plan, progress=lambda step: board.timing(step, candidates, last=False))
    speedups = speedups_of(candidates)
    # By what one may come to at best: a noisy machine must not take any backend out of the race.
    bar = max([1.0, *(speedup.ratio for speedup in speedups.values())]) * behind
    near = {name for name, speedup in speedups.items() if speedup.high >= bar}
    return _only(near, candidates, board)


def _only(
    names: Collection[str], candidates: list[GraphCandidate], board: Board
) -> list[GraphCandidate]:
    """Eager and the backends of these names; the others fall behind, if they have not failed."""
    for each in candidates[1:]:
        if each.error is None and each.name not in names:
            each.drop_out("slower", f"Clearly slower after {count(len(each.samples), 'round')}.")
            median = statistics.median(each.samples)
            board.put(each.name, "out", reason=each.reason, median=median)
    return [candidates[0], *(each for each in candidates[1:] if each.name in names)]


def speedups_of(candidates: list[GraphCandidate]) -> dict[str, Speedup]:
    """Speedups over eager, the first one, of those that were timed with it and did not fail."""
    return {
        each.name: speedup
        for each in candidates
        if each.error is None and (speedup := each.speedup_over(candidates[0])) is not None
    }
