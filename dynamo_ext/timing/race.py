"""Several contenders on one clock: interleaved round by round, in a new random order.

Used for whole cells, for single graphs and by the ``auto`` backend.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from dynamo_ext.interruptions import failures
from dynamo_ext.records.comparison import FEWEST_ROUNDS, USUAL_ROUNDS, Speedup, Timing
from dynamo_ext.records.progress import RaceProgress
from dynamo_ext.timing import clock, statistics
from dynamo_ext.timing.page_faults import PageFaults

MOST_ROUNDS = 1_000
TIGHT = 0.01
"""Half the width of an interval that needs no more rounds."""

LEAD_IN = 0.02
"""Seconds: in a call as long as this, what coming after another contender costs is lost."""

PROGRESS_SECONDS = 0.5
"""Seconds between two reports of progress, at least: showing it takes time of its own."""


@dataclass
class TimedCallable:
    """What takes part in a race under a name of its own.

    ``call`` is one call of the code, whose result is let go. ``before`` runs ahead of every call
    and is not timed (state is put back); without it, several calls are timed at once where one is
    too short for the clock. ``wait`` waits for the device.
    """

    name: str
    call: Callable[[], object]
    before: Callable[[], object] | None = None
    wait: Callable[[], object] = clock.nothing
    samples: list[float] = field(default_factory=list)
    faults: PageFaults = field(default_factory=PageFaults)
    calls: int = 1
    error: Exception | None = None
    warm: float = 0.0

    def warm_up(self) -> None:
        """Run twice, and note how long a call takes."""
        self.warm = self.read()
        if self.before is None:
            self.warm = min(self.warm, self.read())

    def read(self) -> float:
        """Seconds of a call, now."""
        self._ready()
        if self.before is not None:
            clock.wait_for_idle_threads()
        return self._read()

    def take(self) -> None:
        """One more sample."""
        self._ready()
        clock.wait_for_idle_threads()
        if self.before is None and self.warm < LEAD_IN:
            # The one before has left other data in the caches, and this one's threads asleep.
            for _ in range((self.calls + 1) // 2):
                self.call()
        with self.faults.of(self.calls):
            self.samples.append(self._read())

    def _ready(self) -> None:
        if self.before is not None:
            self.before()

    def _read(self) -> float:
        return clock.seconds_per_call(self.call, self.calls, self.wait)

    @property
    def timing(self) -> Timing | None:
        """What was measured, if anything."""
        return Timing(tuple(self.samples), self.calls) if self.samples else None

    def speedup_over(self, base: TimedCallable) -> Speedup | None:
        """How many times faster it is by the rounds that both have; none over itself."""
        count = min(len(base.samples), len(self.samples))
        if self is base or not count:
            return None
        return statistics.speedup(base.samples[:count], self.samples[:count])


@dataclass(frozen=True)
class Plan:
    """How long a race runs.

    ``rounds`` fixes their number; without it they go on until every interval is tight. Either way
    ``budget`` seconds end it, once there are as many as an interval needs; ``limit`` seconds end it
    with fewer.
    """

    budget: float = 30.0
    rounds: int | None = None
    seed: int = 0
    tight: float = TIGHT
    fewest: int = USUAL_ROUNDS
    limit: float = math.inf


def race(
    contenders: Sequence[TimedCallable],
    plan: Plan,
    *,
    progress: Callable[[RaceProgress], object] | None = None,
) -> bool:
    """Run rounds until the plan is fulfilled; the first contender is the baseline.

    A contender that raises takes no further part and keeps its exception; one that has samples
    already, from an earlier race, is not warmed up again. Every contender has the same number of
    samples as the baseline, except one that failed. A ``KeyboardInterrupt`` is raised as it comes;
    the rounds that were complete are kept. Returns whether the budget, not the plan, ended it.

    ``progress`` is called before a sample, at most twice a second; ``round`` is 0 while contenders
    are warmed up, and ``left`` is ``None`` before the first round.
    """
    started = rounds_since = time.perf_counter()
    told = started - PROGRESS_SECONDS
    order = random.Random(plan.seed)  # noqa: S311 - a schedule, not a secret
    needed: float = plan.rounds or MOST_ROUNDS

    def show(name: str, number: int) -> None:
        nonlocal told
        now = time.perf_counter()
        if progress is not None and now - told >= PROGRESS_SECONDS:
            told = now
            each = (now - rounds_since) / max(number - 1, 1)
            in_budget = max(plan.budget - (now - started), (FEWEST_ROUNDS - number) * each)
            left = max(min(in_budget, (needed - number) * each), 0.0) if number > 1 else None
            rounds = plan.rounds or 0
            progress(RaceProgress("", "timing", name, round=number, rounds=rounds, left=left))

    with clock.gc_disabled():
        for contender in contenders:
            show(contender.name, 0)
            if not contender.samples:
                _guarded(contender, contender.warm_up)
        _share_calls(contenders)
        rounds_since = time.perf_counter()
        for number in range(1, (plan.rounds or MOST_ROUNDS) + 1):
            running = [c for c in contenders if c.error is None]
            if not running or running[0] is not contenders[0]:
                return False
            order.shuffle(running)
            _round(running, number, show)
            asked = _rounds_needed(contenders, plan, number)
            if asked and number >= asked:
                return False
            needed = asked or needed
            ends = plan.limit if number < FEWEST_ROUNDS else min(plan.budget, plan.limit)
            if time.perf_counter() - started > ends:
                return number < (plan.rounds or plan.fewest)
    return False


def _share_calls(contenders: Sequence[TimedCallable]) -> None:
    """As many calls in every sample: the first of a sample is cold, the others share that.

    With numbers of their own, one that runs a call more a sample would seem faster. Only one
    that is ten times as slow has fewer, and does not cut the others' samples short.
    """
    alive = [c for c in contenders if c.error is None]
    if not alive or any(c.before is not None for c in alive):
        return
    shortest = max(min(c.warm for c in alive), 1e-9)
    wanted = min(round(clock.MIN_SAMPLE_SECONDS / shortest), clock.MAX_CALLS)
    for contender in alive:
        most = int(clock.MAX_SAMPLE_SECONDS / max(contender.warm, shortest))
        contender.calls = max(min(wanted, most), 1)


def _round(running: Sequence[TimedCallable], number: int, show: Callable[[str, int], None]) -> None:
    lengths = {c.name: len(c.samples) for c in running}
    try:
        for contender in running:
            show(contender.name, number)
            _guarded(contender, contender.take)
    except BaseException:
        # Pairs must stay pairs: a round that was cut short is dropped for all.
        for contender in running:
            del contender.samples[lengths[contender.name] :]
        raise


def _guarded(contender: TimedCallable, action: Callable[[], object]) -> None:
    try:
        action()
    except failures() as error:  # a failing candidate is a row with its reason
        contender.error = error


def _rounds_needed(contenders: Sequence[TimedCallable], plan: Plan, number: int) -> float:
    """With how many rounds every interval would be tight, by the ``number`` so far.

    0 where that was not looked at.
    """
    # Looking at every round would cost more than it saves.
    if plan.rounds is not None or number < plan.fewest or number % 5:
        return 0
    # The width alone, never the verdict: stopping when a difference looks real would find
    # differences where there are none.
    found = (c.speedup_over(contenders[0]) for c in contenders if c.error is None)
    widths = (speedup.half_width for speedup in found if speedup)
    # An interval narrows with the root of the number of rounds.
    return min(max(number * (max(widths, default=0.0) / plan.tight) ** 2, 1), MOST_ROUNDS)
