"""Graphs that run one after another, timed together: whether the mix of their winners wins.

Cycle by cycle, their calls are made with the mix, with eager for all, and with one backend for all,
and the fastest of these stays. The calls are the user's own: nothing runs that would not have run,
and every variant was found right before. A cycle is timed with all that happens between its graphs,
where an engine's threads may be in the way.
"""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.measure.multi_backend import EAGER
from dynamo_ext.records.autotune import BaselineComparison, OnlineTrial
from dynamo_ext.timing import clock, statistics

MIX = "mix"

MAX_ROUNDS = 15
"""Times that each assignment is timed, at most."""

MIN_ROUNDS = 4
"""Rounds after which an assignment that is clearly behind is not tried any more."""

DROP_BELOW = 0.8
"""An assignment is clearly behind whose speed is at best this share of the fastest one's."""

MAX_SECONDS = 10.0
"""Seconds of timed cycles after which what was seen decides, if every assignment had so many."""

SHORT_CYCLE = 0.05
"""Seconds of a cycle that the threads of the variant before, still awake, may make longer."""

LEAD_IN_SECONDS = 0.02
"""Seconds of short cycles that do not count after a change of variant: until the threads of the one
before sleep, and this one's are awake with its weights in the caches."""

SAMPLE_SECONDS = clock.MIN_SAMPLE_SECONDS
"""Seconds of short cycles that are one reading."""

MIN_SHARE = 0.1
"""Of a cycle's time in eager, what a backend must have variants for to be tried for all graphs."""

MAX_SINGLE_BACKENDS = 2
"""Backends that are tried for all graphs, the most promising ones."""

MAX_OUT_OF_ORDER = 12
"""Calls out of turn without a whole cycle, after which the graphs go in no cycle any more."""

FAILED_CYCLE_COST = 100
"""What a cycle that went nowhere counts for, in calls that its graphs have waited."""


class OnlineTrials:
    """The mix, eager and the best single backends in turn, a cycle each.

    ``cycle`` has the calls of a cycle in their order; a graph may be called several times in one.
    """

    def __init__(self, cycle: Sequence[AutotunedGraph]) -> None:
        self._cycle = [weakref.ref(member) for member in cycle]
        # The backward pass comes after the last call: such a cycle ends where the next one starts.
        self._to_the_next = any(member.trains for member in cycle)
        self._thread = threading.get_ident()
        self._barrier = clock.device_barrier()
        self._variants = assignments(cycle)
        self._samples: dict[str, list[float]] = {name: [] for name in self._variants}
        self._running = list(self._variants)
        self._warm: set[str] = set()
        self._random = random.Random(0)  # noqa: S311 - a schedule
        self._turns = self._round()
        self._lead_in = LEAD_IN_SECONDS
        self._sampled: tuple[int, float] = 0, 0.0
        self._place = 0
        self._whole = False
        self._started = 0.0
        self._timed = 0.0
        self._broken = 0
        self._called: set[int] = set()

    def _round(self) -> list[str]:
        return self._random.sample(self._running, len(self._running))

    def call(self, member: AutotunedGraph, args: Sequence[Any]) -> Any:
        """Call a graph in the variant whose turn it is."""
        if threading.get_ident() != self._thread:
            return member.variant(member.winner)(*args)
        self._called.add(id(member))
        if self._cycle[self._place]() is not member and not self._starts_again(member):
            variant = member.variant(member.winner)
            if self._broken > MAX_OUT_OF_ORDER:
                self._dissolve()
            return variant(*args)
        place = self._place
        if place == 0:
            now = time.perf_counter()
            if self._whole and self._to_the_next:
                self._count(now - self._started)
            self._started = now
        # Should it raise, the cycle is over.
        self._place, self._whole = 0, False
        result = self._variants[self._turns[-1]][place](*args)
        self._place = place + 1
        if self._place == len(self._cycle):
            self._place, self._whole, self._broken = 0, True, 0
            self._called.clear()
            if not self._to_the_next:
                self._barrier()
                self._count(time.perf_counter() - self._started)
        return result

    def _starts_again(self, member: AutotunedGraph) -> bool:
        """Whether a call out of turn is the first of a cycle: the one before was not finished."""
        self._broken += 1
        self._place, self._whole = 0, False
        return self._broken <= MAX_OUT_OF_ORDER and self._cycle[0]() is member

    def _count(self, seconds: float) -> None:
        """Take note of a cycle; the last one of all decides."""
        name = self._turns[-1]
        if self._lead_in > 0 and (seconds < SHORT_CYCLE or name not in self._warm):
            self._lead_in -= seconds
            self._warm.add(name)
            return
        self._sampled = cycles, taken = self._sampled[0] + 1, self._sampled[1] + seconds
        self._timed += seconds
        if taken < SAMPLE_SECONDS:
            return
        self._samples[name].append(taken / cycles)
        self._sampled = 0, 0.0
        self._lead_in = LEAD_IN_SECONDS
        if len(self._turns) > 1:
            self._turns.pop()
            return
        rounds = len(self._samples[name])
        if rounds >= MIN_ROUNDS:
            self._drop_slow()
        late = rounds >= MIN_ROUNDS and self._timed > MAX_SECONDS
        if rounds == MAX_ROUNDS or len(self._running) == 1 or late:
            # What is left of this call runs in the variant that stays.
            self._turns = [self._decide()]
        else:
            self._turns = self._round()

    def _drop_slow(self) -> None:
        fastest = self._fastest()
        best = self._samples[fastest]
        self._running = [
            name
            for name in self._running
            if name == fastest or statistics.speedup(best, self._samples[name]).high > DROP_BELOW
        ]

    def _fastest(self) -> str:
        return min(self._running, key=lambda name: float(np.median(self._samples[name])))

    def _decide(self) -> str:
        mix = self._samples[MIX]
        found = {
            name: statistics.speedup(taken[: len(mix)], mix[: len(taken)])
            for name, taken in self._samples.items()
            if name != MIX
        }
        kept = self._fastest()
        if kept != MIX and MIX in self._running:
            # Each its own winner, unless another assignment is faster beyond noise.
            kept = kept if found[kept].verdict == "slower" else MIX
        rivals = tuple(BaselineComparison(n, s.ratio, s.low, s.high) for n, s in found.items())
        members = self._members()
        rounds = max(len(samples) for samples in self._samples.values())
        confirmation = OnlineTrial(len(members), kept, rounds, rivals)
        for member in members:
            member.trials = None
            member.settle("" if kept == MIX else kept, confirmation)
        return kept

    def _dissolve(self) -> None:
        """Let the graphs look for another cycle; one that is not called any more is settled."""
        for member in self._members():
            member.trials = None
            member.waited += FAILED_CYCLE_COST
            if id(member) not in self._called:
                member.settle()

    def _members(self) -> list[AutotunedGraph]:
        return list(dict.fromkeys(filter(None, (reference() for reference in self._cycle))))


def totals(cycle: Sequence[AutotunedGraph]) -> dict[str, float]:
    """Seconds of a cycle by the graphs' own races: of each backend for all of them, and of eager.

    A backend of which only graphs that hardly count have a variant is left out: it would be eager.
    """
    eager = [member.seconds.get(EAGER, 0.0) for member in cycle]
    found = {EAGER: sum(eager)}
    for name in {name for member in cycle for name in member.seconds} - {EAGER}:
        own = sum(e for m, e in zip(cycle, eager, strict=True) if name in m.seconds)
        if own >= MIN_SHARE * found[EAGER]:
            found[name] = sum(m.seconds.get(name, e) for m, e in zip(cycle, eager, strict=True))
    return found


def assignments(cycle: Sequence[AutotunedGraph]) -> dict[str, list[Callable[..., Any]]]:
    """By name, a variant for each call of a cycle."""
    sums = totals(cycle)
    singles = sorted(sums.keys() - {EAGER}, key=lambda name: sums[name])[:MAX_SINGLE_BACKENDS]
    found = {MIX: [member.variant(member.winner) for member in cycle]}
    winners = {member.winner for member in cycle}
    for name in (EAGER, *singles):
        if winners != {name}:
            found[name] = [member.variant(name) for member in cycle]
    return found
