"""Graphs that run one after another, confirmed together: whether the mix of the winners wins.

Each graph's race is by itself. Engines that take turns may get in each other's way (threads that
spin, caches), so what wins alone may lose in company. Where several graphs follow one another
again and again and have different winners, the next calls are made in turn with the mix, with
eager, and with the best single backends, and the one that is fastest in truth stays. The calls are
the user's own: nothing runs that would not have run, and every form was found right before.
"""

from __future__ import annotations

import random
import threading
import time
import weakref
from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from dynamo_ext.measure import statistics
from dynamo_ext.measure.switchboard import EAGER
from dynamo_ext.records import Confirmation, Rival

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MIX = "mix"
MOST = 16
"""Graphs in a circuit; of longer ones each graph keeps its own winner."""

PATIENCE = 100
"""Calls after which a graph stops waiting to be part of a circuit."""

ROUNDS = 15
"""Times that each assignment is timed, after one that is not."""

SINGLES = 2
"""Backends that are tried for all graphs, the most promising ones."""

BROKEN = 30
"""Calls out of turn, after which the mix stays unconfirmed."""


class Member(Protocol):
    """One graph as a circuit sees it."""

    trial: Trial | None
    waited: int

    @property
    def winner(self) -> str:
        """Who won the graph's own race."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of a call, of eager and every backend that is right and was timed."""

    def form(self, name: str) -> Callable[..., Any]:
        """The graph as a backend compiled it; eager's where that one has none."""

    def settle(self, name: str = "", confirmation: Confirmation | None = None) -> None:
        """Keep one form, the winner's unless told, and let the others go."""


class Circuits(threading.local):
    """The circuits of one thread's calls."""

    def __init__(self) -> None:
        self._trail: deque[weakref.ref[Member]] = deque(maxlen=2 * MOST)

    def call(self, member: Member, args: Sequence[Any]) -> Any:
        """Call a graph that is not settled, and look whether the calls go in a circuit."""
        if member.trial is not None:
            return member.trial.call(member, args)
        before = self._trail[-1]() if self._trail else None
        self._trail.append(weakref.ref(member))
        member.waited += 1
        form = member.form(member.winner)
        if before is member or member.waited > PATIENCE:
            # Nothing else in between: there is no company to be confirmed in.
            member.settle()
            return form(*args)
        members = self._repeated()
        if members:
            self._trail.clear()
            begin(members)
        return form(*args)

    def _repeated(self) -> list[Member]:
        """The graphs that were just called for the second time in the same order."""
        calls = [reference() for reference in self._trail]
        for length in range(2, min(MOST, len(calls) // 2) + 1):
            last = calls[-length:]
            alike = all(a is b for a, b in zip(calls[-2 * length : -length], last, strict=True))
            if alike and len({id(member) for member in last}) == length:
                return [member for member in last if member is not None]
        return []


def begin(members: Sequence[Member]) -> None:
    """Have the members' next calls timed; settle them at once where one backend has won all."""
    if len({member.winner for member in members}) == 1:
        for member in members:
            member.settle()
        return
    trial = Trial(members)
    for member in members:
        member.trial = trial


class Trial:
    """The mix, eager and the best single backends in turn, a circuit each."""

    def __init__(self, members: Sequence[Member]) -> None:
        self._members = [weakref.ref(member) for member in members]
        self._places = {id(member): place for place, member in enumerate(members)}
        self._thread = threading.get_ident()
        self._forms = _assignments(members)
        self._samples: dict[str, list[float]] = {name: [] for name in self._forms}
        self._random = random.Random(0)  # noqa: S311 - a schedule
        self._turns = self._round()
        self._expected = 0
        self._spent = 0.0
        self._broken = 0

    def _round(self) -> list[str]:
        names = list(self._forms)
        self._random.shuffle(names)
        return names

    def call(self, member: Member, args: Sequence[Any]) -> Any:
        """Call a graph in the form whose turn it is."""
        place = self._places[id(member)]
        if threading.get_ident() != self._thread:
            return member.form(member.winner)(*args)
        if place != self._expected:
            # Left half-way, or gone another way: it does not count.
            self._broken += 1
            self._expected, self._spent = 0, 0.0
            if self._broken > BROKEN or place:
                form = member.form(member.winner)
                if self._broken > BROKEN:
                    self._settle(MIX, None)
                return form(*args)
        form = self._forms[self._turns[-1]][place]
        started = time.perf_counter()
        result = form(*args)
        _wait(result)
        self._spent += time.perf_counter() - started
        self._expected = place + 1
        if self._expected == len(self._places):
            self._count()
        return result

    def _count(self) -> None:
        self._samples[self._turns.pop()].append(self._spent)
        self._expected, self._spent = 0, 0.0
        if self._turns:
            return
        self._turns = self._round()
        if len(self._samples[MIX]) > ROUNDS:
            self._decide()

    def _decide(self) -> None:
        # The first of each was cold.
        mix = self._samples[MIX][1:]
        others = {name: s[1:] for name, s in self._samples.items() if name != MIX}
        found = {name: statistics.speedup(taken, mix) for name, taken in others.items()}
        better = {n: s.ratio for n, s in found.items() if s.high < 1 and not s.same}
        kept = min(better, key=lambda name: better[name], default=MIX)
        rivals = tuple(Rival(n, s.ratio, s.low, s.high) for n, s in found.items())
        self._settle(kept, Confirmation(len(self._places), kept, len(mix), rivals))

    def _settle(self, kept: str, confirmation: Confirmation | None) -> None:
        for reference in self._members:
            member = reference()
            if member is not None:
                member.trial = None
                member.settle("" if kept == MIX else kept, confirmation)


def _assignments(members: Sequence[Member]) -> dict[str, list[Callable[..., Any]]]:
    """By name, a form for each member."""
    names = {name for member in members for name in member.seconds} - {EAGER}
    totals = {
        name: sum(member.seconds.get(name, member.seconds.get(EAGER, 0.0)) for member in members)
        for name in names
    }
    singles = sorted(totals, key=lambda name: totals[name])[:SINGLES]
    found = {MIX: [member.form(member.winner) for member in members]}
    for name in (EAGER, *singles):
        found[name] = [member.form(name) for member in members]
    return found


def _wait(result: Any) -> None:
    """Wait until a device has done what it was given."""
    import torch

    for value in result:
        if isinstance(value, torch.Tensor) and value.is_cuda:
            torch.cuda.synchronize(value.device)
            return
