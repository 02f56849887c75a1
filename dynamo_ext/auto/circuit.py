"""Which graphs follow one another, again and again: they are confirmed together.

Each graph's race is by itself, call after call. In the user's program other code runs before and
after it: other graphs in other engines, and eager's own operations. Engines that take turns may get
in each other's way (threads that spin while they wait, caches), so what wins alone may lose in
company. So the winners are timed once more in the user's own calls (``laps``).
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto.laps import BEHIND, Laps, totals
from dynamo_ext.measure.switchboard import EAGER

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.auto.laps import Member

MOST = 64
"""Calls of graphs in a circuit, at most."""

SURE = 8
"""Calls, at least, that show that the same order comes again."""

PATIENCE = 400
"""Calls after which a graph stops waiting to be part of a circuit."""


class Circuits(threading.local):
    """The circuits of one thread's calls.

    Attributes
    ----------
    on_trial
        Calls so far of graphs that were not settled.
    """

    def __init__(self) -> None:
        self._trail: deque[weakref.ref[Member]] = deque(maxlen=2 * MOST)
        self.on_trial = 0

    def call(self, member: Member, args: Sequence[Any]) -> Any:
        """Call a graph that is not settled, and look whether the calls go in a circuit."""
        self.on_trial += 1
        if member.laps is None and self._trail and self._trail[-1]() is member:
            # It seems to be alone; other backends would be tried for several graphs only, and
            # until it is settled each would keep the weights in memory once more.
            member.narrow()
        self._trail.append(weakref.ref(member))
        if member.laps is not None:
            result = member.laps.call(member, args)
            if member.laps is None:
                # Some of the graphs that were called are settled now.
                self._trail.clear()
            return result
        form: Callable[..., Any] = member.form(member.winner)
        member.waited += 1
        if member.waited > PATIENCE:
            member.settle()
        elif found := self._repeated():
            self._trail.clear()
            begin(found)
        return form(*args)

    def _repeated(self) -> list[Member]:
        """The graphs that were just called in the same order as before, none of them on laps."""
        calls = [reference() for reference in self._trail]
        last = calls[-1]
        for length in range(1, min(MOST, len(calls) // 2) + 1):
            if calls[-1 - length] is not last:
                continue
            seen = max(2 * length, -(-SURE // length) * length)
            lap, before = calls[-length:], calls[-seen:]
            if len(before) == seen and all(c is lap[i % length] for i, c in enumerate(before)):
                found = [member for member in lap if member is not None]
                return [] if any(member.laps is not None for member in found) else found
        return []


def begin(circuit: Sequence[Member]) -> None:
    """Have the next calls of these graphs timed; settle them at once where eager has won clearly.

    Where a backend was near, as Inductor is on training steps, what is between the graphs decides.
    """
    sums = totals(circuit)
    near = [name for name in sums if name != EAGER and sums[name] * BEHIND < sums[EAGER]]
    if all(member.winner == EAGER for member in circuit) and not near:
        for member in circuit:
            member.settle()
        return
    laps = Laps(circuit)
    for member in circuit:
        member.laps = laps
