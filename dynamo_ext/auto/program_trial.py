"""Which variants of graphs are fastest within the program, timed in the user's own calls.

The fastest backend of a graph by itself is not always the fastest in the program, where engines
that take turns may get in each other's way. Where a model of three graphs runs often, their calls
are::

    g0 g1 g2 | g0 g1 g2 | g0 g1 g2 | …

A round is from one call of a graph, the anchor, to its next. In one round all run in their winners
(the mix), in the next in eager, in another in one backend for all, and the fastest of these stays.
Nothing runs that would not have run, and every variant was found right before. A round is timed
with all that happens between its graphs, where an engine's threads may be in the way.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto.turns import DROP_BELOW, turns
from dynamo_ext.measure.multi_backend import EAGER
from dynamo_ext.records.autotune import BaselineComparison, OnlineTrial
from dynamo_ext.timing import clock, statistics

if TYPE_CHECKING:
    from dynamo_ext.auto.autotuned_graph import AutotunedGraph

MIX = "mix"

MIN_CALLS = 8
"""Calls of a graph after which the rounds of all that are called begin."""

MAX_WAIT = 400
"""Calls after which a graph waits for no round any more."""

MAX_SECONDS = 10.0
"""Seconds of timed rounds after which what was seen decides."""

MAX_SINGLE_BACKENDS = 2
"""Backends that are tried for all graphs, the most promising ones."""


class ProgramTrials(threading.local):
    """The calls of one thread's graphs that are not settled, and the trial of them that goes on.

    ``unsettled_calls`` counts them. While they are ``paused``, each graph runs in its winner: the
    calls are not those of the user's program.
    """

    def __init__(self) -> None:
        self.unsettled_calls = 0
        self.paused = False
        self.trial: ProgramTrial | None = None
        self._calls: weakref.WeakKeyDictionary[AutotunedGraph, int] = weakref.WeakKeyDictionary()
        self._last: Callable[[], AutotunedGraph | None] = lambda: None

    def call(self, member: AutotunedGraph, args: Sequence[Any]) -> Any:
        """Call a graph that is not settled, in the variant whose turn it is."""
        if self.paused:
            return member.variant(member.winner)(*args)
        self.unsettled_calls += 1
        if self.trial is not None and member in self.trial.variants:
            result = self.trial.call(member, args)
            if self.trial.over:
                self.trial = None
            return result
        if self._last() is member:
            # It seems to be alone; other backends would be tried for several graphs only, and
            # until it is settled each would keep the weights in memory a second time.
            member.keep_only({EAGER, member.winner})
        self._last = weakref.ref(member)
        variant = member.variant(member.winner)
        calls = self._calls[member] = self._calls.get(member, 0) + 1
        if calls > MAX_WAIT:
            member.settle()
        elif calls >= MIN_CALLS and self.trial is None:
            self.trial = begun({each: n for each, n in self._calls.items() if n > 1})
            self._calls.clear()
        return variant(*args)


class ProgramTrial:
    """The mix, eager and the best single backends in turn, a round each.

    ``calls`` are the graphs in their order, with their calls so far: the anchor is the first of
    those with the fewest, give or take one. ``variants`` has, by graph, that of each assignment;
    ``over`` says that none is to be timed.
    """

    def __init__(self, calls: Mapping[AutotunedGraph, int]) -> None:
        chosen = assignments(calls)
        self.over = False
        self.variants = weakref.WeakKeyDictionary(
            {each: {name: each.variant(of(each)) for name, of in chosen.items()} for each in calls}
        )
        fewest = min(calls.values())
        self._anchor = weakref.ref(next(each for each, n in calls.items() if n <= fewest + 1))
        # Four rounds without the anchor: it is not called any more.
        self._most = MIN_CALLS + 4 * sum(calls.values()) // fewest
        self._barrier = clock.device_barrier()
        # A backward pass comes after the last call, and a device is not waited for before that.
        self._to_the_next = self._barrier is not clock.nothing or any(m.trains for m in calls)
        self._samples: dict[str, list[float]] = {name: [] for name in chosen}
        self._rounds = turns(self._samples, MAX_SECONDS)
        self._turn = next(self._rounds)
        self._whole = False
        self._started = self._ended = 0.0
        self._others = 0

    def call(self, member: AutotunedGraph, args: Sequence[Any]) -> Any:
        """Call a graph in the variant whose turn it is; a call of the anchor ends a round."""
        variants = self.variants[member]
        if self._anchor() is member:
            self._next()
        else:
            self._others += 1
            if self._others > self._most:
                self._give_up()
        try:
            result = variants[self._turn](*args)
        except BaseException:
            self._whole = False
            raise
        self._ended = time.perf_counter()
        return result

    def _next(self) -> None:
        self._barrier()
        if self._whole:
            end = time.perf_counter() if self._to_the_next else self._ended
            try:
                self._turn = self._rounds.send(end - self._started)
            except StopIteration as ended:
                # What is left of this round runs in the variant that stays.
                self._turn = self._decide(ended.value)
        self._others, self._whole, self._started = 0, True, time.perf_counter()

    def _decide(self, running: Sequence[str]) -> str:
        """Settle the graphs, by the assignments that are left, the fastest first."""
        mix = self._samples[MIX]
        found = {
            name: statistics.speedup(taken[: len(mix)], mix[: len(taken)])
            for name, taken in self._samples.items()
            if name != MIX
        }
        kept = running[0]
        if kept != MIX and MIX in running:
            # Each its own winner, unless another assignment is faster beyond noise.
            kept = kept if found[kept].verdict == "slower" else MIX
        rivals = tuple(BaselineComparison(n, s.ratio, s.low, s.high) for n, s in found.items())
        rounds = max(len(samples) for samples in self._samples.values())
        confirmation = OnlineTrial(len(self.variants), kept, rounds, rivals)
        self.over = True
        for member in list(self.variants):
            member.settle("" if kept == MIX else kept, confirmation)
        return kept

    def _give_up(self) -> None:
        """Let the graphs wait for another trial, without the anchor."""
        self.over = True
        if (anchor := self._anchor()) is not None:
            anchor.settle()


def begun(calls: Mapping[AutotunedGraph, int]) -> ProgramTrial | None:
    """A trial of these graphs; none, and they are settled, where eager has won clearly.

    Where a backend was near, as Inductor is on training steps, what is between the graphs decides.
    """
    sums = totals(calls)
    near = [name for name in sums if name != EAGER and sums[name] * DROP_BELOW < sums[EAGER]]
    if near or any(member.winner != EAGER for member in calls):
        return ProgramTrial(calls)
    for member in calls:
        member.settle()
    return None


def totals(calls: Mapping[AutotunedGraph, int]) -> dict[str, float]:
    """Seconds of calls by the graphs' own races: of each backend for all of them, and of eager.

    Eager's count where a graph has no variant of a backend.
    """
    races = [(n, member.seconds, member.seconds.get(EAGER, 0.0)) for member, n in calls.items()]
    names = {EAGER}.union(*(race for _, race, _ in races))
    return {name: sum(n * race.get(name, eager) for n, race, eager in races) for name in names}


def assignments(calls: Mapping[AutotunedGraph, int]) -> dict[str, Callable[[AutotunedGraph], str]]:
    """By name, what tells the backend of a graph."""
    sums = totals(calls)
    singles = sorted(sums.keys() - {EAGER}, key=sums.__getitem__)[:MAX_SINGLE_BACKENDS]
    winners = {member.winner for member in calls}
    chosen: dict[str, Callable[[AutotunedGraph], str]] = {MIX: lambda member: member.winner}
    for name in (EAGER, *singles):
        if winners != {name}:
            chosen[name] = lambda _, name=name: name  # type: ignore[misc]
    return chosen
