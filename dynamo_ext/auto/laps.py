"""Graphs that run one after another, timed together: whether the mix of their winners wins.

Lap by lap, their calls are made with the mix, with eager for all, and with one backend for all,
and what is fastest in truth stays. The calls are the user's own: nothing runs that would not have
run, and every form was found right before. A lap is timed with all that happens between its graphs,
which may be where an engine's threads are in the way.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from dynamo_ext.measure import clock, statistics
from dynamo_ext.measure.switchboard import EAGER
from dynamo_ext.records import Confirmation, Rival

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

MIX = "mix"

ROUNDS = 15
"""Times that each assignment is timed, at most."""

HEAT = 4
"""Rounds after which an assignment that is clearly behind is not tried any more."""

BEHIND = 0.8
"""What such a one comes to at best, over the fastest."""

LONGEST = 10.0
"""Seconds of timed laps after which what was seen decides, if every assignment had its heat."""

BRIEF = 0.05
"""Seconds of a lap that the threads of the one before it, still awake, may make longer."""

SHARE = 0.1
"""Of a lap's time in eager, what a backend must have forms for to be tried for all graphs."""

SINGLES = 2
"""Backends that are tried for all graphs, the most promising ones."""

BROKEN = 12
"""Calls out of turn without a whole lap, after which the graphs go in no circuit any more."""

COST = 100
"""What a circuit that went nowhere counts for, in calls that its graphs have waited."""


class Member(Protocol):
    """One graph as a circuit sees it.

    ``waited`` counts its calls outside laps; ``trains`` says that a backward pass follows them.
    """

    laps: Laps | None
    waited: int
    trains: bool

    @property
    def winner(self) -> str:
        """Who won the graph's own race."""

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of a call, of eager and every backend that is right and was timed."""

    def form(self, name: str) -> Callable[..., Any]:
        """The graph as a backend compiled it; eager's where that one has none."""

    def narrow(self) -> None:
        """Keep the winner's form and eager's alone."""

    def settle(self, name: str = "", confirmation: Confirmation | None = None) -> None:
        """Keep one form, the winner's unless told, and let the others go."""


class Laps:
    """The mix, eager and the best single backends in turn, a lap each.

    Parameters
    ----------
    circuit
        The calls of a lap in their order; a graph may be called several times in one.
    """

    def __init__(self, circuit: Sequence[Member]) -> None:
        self._circuit = [weakref.ref(member) for member in circuit]
        # The backward pass comes after the last call: such a lap ends where the next one starts.
        self._to_the_next = any(member.trains for member in circuit)
        self._thread = threading.get_ident()
        self._barrier = clock.device_barrier()
        self._forms = assignments(circuit)
        self._samples: dict[str, list[float]] = {name: [] for name in self._forms}
        self._running = list(self._forms)
        self._warm: set[str] = set()
        self._random = random.Random(0)  # noqa: S311 - a schedule
        self._turns = self._round()
        self._lead_in = True
        self._place = 0
        self._whole = False
        self._started = 0.0
        self._timed = 0.0
        self._broken = 0
        self._called: set[int] = set()

    def _round(self) -> list[str]:
        return self._random.sample(self._running, len(self._running))

    def call(self, member: Member, args: Sequence[Any]) -> Any:
        """Call a graph in the form whose turn it is."""
        if threading.get_ident() != self._thread:
            return member.form(member.winner)(*args)
        self._called.add(id(member))
        if self._circuit[self._place]() is not member and not self._begins_anew(member):
            form = member.form(member.winner)
            if self._broken > BROKEN:
                self._dissolve()
            return form(*args)
        place = self._place
        if place == 0:
            now = time.perf_counter()
            if self._whole and self._to_the_next:
                self._count(now - self._started)
            self._started = now
        # Should it raise, the lap is over.
        self._place, self._whole = 0, False
        result = self._forms[self._turns[-1]][place](*args)
        self._place = place + 1
        if self._place == len(self._circuit):
            self._place, self._whole, self._broken = 0, True, 0
            self._called.clear()
            if not self._to_the_next:
                if self._barrier is not None:
                    self._barrier()
                self._count(time.perf_counter() - self._started)
        return result

    def _begins_anew(self, member: Member) -> bool:
        """Whether a call out of turn is the first of a lap: the one before was not finished."""
        self._broken += 1
        self._place, self._whole = 0, False
        return self._broken <= BROKEN and self._circuit[0]() is member

    def _count(self, seconds: float) -> None:
        """Take note of a lap; the last one of all decides."""
        name = self._turns[-1]
        if self._lead_in and (seconds < BRIEF or name not in self._warm):
            self._lead_in = False
            self._warm.add(name)
            return
        self._lead_in = True
        self._samples[name].append(seconds)
        self._timed += seconds
        if len(self._turns) > 1:
            self._turns.pop()
            return
        rounds = len(self._samples[name])
        if rounds >= HEAT:
            self._drop_who_is_behind()
        late = rounds >= HEAT and self._timed > LONGEST
        if rounds == ROUNDS or len(self._running) == 1 or late:
            # What is left of this call runs in the form that stays.
            self._turns = [self._decide()]
        else:
            self._turns = self._round()

    def _drop_who_is_behind(self) -> None:
        fastest = self._fastest()
        best = self._samples[fastest]
        self._running = [
            name
            for name in self._running
            if name == fastest or statistics.speedup(best, self._samples[name]).high > BEHIND
        ]

    def _fastest(self) -> str:
        return min(self._running, key=lambda name: float(np.median(self._samples[name])))

    def _decide(self) -> str:
        mix = self._samples[MIX]
        found = {}
        for name, taken in self._samples.items():
            both = min(len(mix), len(taken))
            if name != MIX:
                found[name] = statistics.speedup(taken[:both], mix[:both])
        kept = self._fastest()
        if kept != MIX and MIX in self._running:
            # Each its own winner, unless another assignment is faster beyond noise.
            beyond = found[kept].high < 1 and not found[kept].same
            kept = kept if beyond else MIX
        rivals = tuple(Rival(n, s.ratio, s.low, s.high) for n, s in found.items())
        members = self._members()
        rounds = max(len(samples) for samples in self._samples.values())
        confirmation = Confirmation(len(members), kept, rounds, rivals)
        for member in members:
            member.laps = None
            member.settle("" if kept == MIX else kept, confirmation)
        return kept

    def _dissolve(self) -> None:
        """Let the graphs look for another circuit; who is not called any more is settled."""
        for member in self._members():
            member.laps = None
            member.waited += COST
            if id(member) not in self._called:
                member.settle()

    def _members(self) -> list[Member]:
        found = {id(member): member for reference in self._circuit if (member := reference())}
        return list(found.values())


def totals(circuit: Sequence[Member]) -> dict[str, float]:
    """Seconds of a lap by the graphs' own races: of each backend for all of them, and of eager.

    A backend of which only graphs that hardly count have a form is left out: it would be eager.
    """
    eager = [member.seconds.get(EAGER, 0.0) for member in circuit]
    found = {EAGER: sum(eager)}
    for name in {name for member in circuit for name in member.seconds} - {EAGER}:
        own = [name in member.seconds for member in circuit]
        if sum(itertools.compress(eager, own)) >= SHARE * found[EAGER]:
            taken = (m.seconds.get(name, e) for m, e in zip(circuit, eager, strict=True))
            found[name] = sum(taken)
    return found


def assignments(circuit: Sequence[Member]) -> dict[str, list[Callable[..., Any]]]:
    """By name, a form for each call of a lap."""
    sums = totals(circuit)
    singles = sorted(sums.keys() - {EAGER}, key=lambda name: sums[name])[:SINGLES]
    found = {MIX: [member.form(member.winner) for member in circuit]}
    winners = {member.winner for member in circuit}
    for name in (EAGER, *singles):
        if winners != {name}:
            found[name] = [member.form(name) for member in circuit]
    return found
