"""Graphs that are called in a repeating order: they are confirmed together.

The fastest backend in isolation is not always the fastest in the program, where engines that take
turns may get in each other's way. So the winners are timed again in the user's own calls. Where a
model of three graphs runs often, their calls are::

    g0 g1 g2 | g0 g1 g2 | g0 g1 g2 | …

and ``g0 g1 g2`` is their cycle: one runs under the winners, the next in eager, the next under
another backend, and each is timed as a whole.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.auto.online_trials import DROP_BELOW, OnlineTrials, totals
from dynamo_ext.measure.multi_backend import EAGER

MAX_CALLS = 64
"""Calls of graphs in a cycle, at most."""

MIN_REPEATED = 8
"""Calls, at least, that show that the same order comes again."""

MAX_WAIT = 400
"""Calls after which a graph stops waiting to be part of a cycle."""


class CallCycles(threading.local):
    """The cycles of one thread's calls.

    ``unsettled_calls`` counts calls so far of graphs that were not settled. While they are
    ``paused``, each graph runs in its winner: the calls are not those of the user's program.
    """

    def __init__(self) -> None:
        self._trail: deque[weakref.ref[AutotunedGraph]] = deque(maxlen=2 * MAX_CALLS)
        self.unsettled_calls = 0
        self.paused = False

    def call(self, member: AutotunedGraph, args: Sequence[Any]) -> Any:
        """Call a graph that is not settled, and look whether the calls go in a cycle."""
        if self.paused:
            return member.variant(member.winner)(*args)
        self.unsettled_calls += 1
        if member.trials is None and self._trail and self._trail[-1]() is member:
            # It seems to be alone; other backends would be tried for several graphs only, and
            # until it is settled each would keep the weights in memory a second time.
            member.narrow()
        self._trail.append(weakref.ref(member))
        if member.trials is not None:
            result = member.trials.call(member, args)
            if member.trials is None:
                # Some of the graphs that were called are settled now.
                self._trail.clear()
            return result
        variant: Callable[..., Any] = member.variant(member.winner)
        member.waited += 1
        if member.waited > MAX_WAIT:
            member.settle()
        elif found := self._repeated():
            self._trail.clear()
            begin(found)
        return variant(*args)

    def _repeated(self) -> list[AutotunedGraph]:
        """The graphs that were just called in the same order as before, none of them on trial."""
        calls = [reference() for reference in self._trail]
        last = calls[-1]
        for length in range(1, min(MAX_CALLS, len(calls) // 2) + 1):
            if calls[-1 - length] is not last:
                continue
            seen = max(2 * length, -(-MIN_REPEATED // length) * length)
            cycle, before = calls[-length:], calls[-seen:]
            if len(before) == seen and all(c is cycle[i % length] for i, c in enumerate(before)):
                found = [member for member in cycle if member is not None]
                return [] if any(member.trials is not None for member in found) else found
        return []


def begin(cycle: Sequence[AutotunedGraph]) -> None:
    """Have the next calls of these graphs timed; settle them at once where eager has won clearly.

    Where a backend was near, as Inductor is on training steps, what is between the graphs decides.
    """
    sums = totals(cycle)
    near = [name for name in sums if name != EAGER and sums[name] * DROP_BELOW < sums[EAGER]]
    if all(member.winner == EAGER for member in cycle) and not near:
        for member in cycle:
            member.settle()
        return
    trials = OnlineTrials(cycle)
    for member in cycle:
        member.trials = trials
