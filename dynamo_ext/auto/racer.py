"""One captured graph under ``auto``: raced, confirmed in company, and then its winner alone."""

from __future__ import annotations

import contextlib
import dataclasses
import time
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto import placing
from dynamo_ext.backends import torch_private
from dynamo_ext.backends.whole import RUN_FAILURES
from dynamo_ext.measure.switchboard import EAGER, Switch, compile_into
from dynamo_ext.records import Contest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.auto.circuit import Circuits
    from dynamo_ext.auto.laps import Laps
    from dynamo_ext.backends.compilers import Compiler
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.records import Confirmation, Contestant

_WATCHED = "It was not raced: a checkpoint around it hears of every tensor that a race would save."
_OUTSIDE = "Call it once without the checkpoint, under gradients."

KEPT = 3
"""Forms, by speed, that wait for the company of other graphs."""


class Racer:
    """A graph in several forms until it is settled, and in one from then on.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    journal
        Where the race and the winner's parts are told.
    budget
        Seconds for the timing.
    circuits
        Where it may turn out that other graphs run before and after this one.
    """

    def __init__(
        self, graph: GraphModule, journal: Journal, budget: float, circuits: Circuits
    ) -> None:
        self.switch: Switch | None = Switch(0, graph, {EAGER: graph.forward})
        self.contest: Contest | None = None
        self.laps: Laps | None = None
        self.waited = 0
        self.trains = False
        self.absent: tuple[Contestant, ...] = ()
        self.then: Callable[[Contest], None] | None = None
        self._journal = journal
        self._budget = budget
        self._circuits = circuits
        self._settled: Callable[..., Any] | None = None
        self._failures = 0

    def compile(self, compilers: Mapping[str, Compiler], inputs: Sequence[Any]) -> None:
        """Compile the graph with each."""
        compile_into(self._forms, compilers, inputs)

    def __call__(self, *args: Any) -> Any:
        """Race at the first call; the winner runs."""
        settled = self._settled
        if settled is not None:
            return settled(*args)
        if torch_private.saving_is_watched():
            self._journal.add_fallback("unsupported", "graph", message=_WATCHED, remedy=_OUTSIDE)
            return self.form(EAGER)(*args)
        if self.contest is None:
            self._race(args)
            if self._settled is not None:
                return self._settled(*args)
            if self.contest is None:
                return self.form(EAGER)(*args)
        return self._circuits.call(self, args)

    @property
    def _forms(self) -> Switch:
        if self.switch is None:
            message = "The graph is settled: its other forms are gone."
            raise RuntimeError(message)
        return self.switch

    @property
    def winner(self) -> str:
        """Who won the race; eager before it."""
        return self.contest.winner if self.contest else EAGER

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of a call, of eager and every backend that is right, was timed, and waits."""
        found = placing.timed(self.contest) if self.contest else {}
        return {name: taken for name, taken in found.items() if name in self._forms.compiled}

    def form(self, name: str) -> Callable[..., Any]:
        """The graph as a right backend compiled it; eager's where that one has none."""
        forms = self._forms.compiled
        return forms[name if name in self.seconds else EAGER]

    def _race(self, args: tuple[Any, ...]) -> None:
        started = time.perf_counter()
        from dynamo_ext.auto import contest

        switch = self._forms
        try:
            held = contest.hold(switch, args, self._budget)
        except Exception as error:  # noqa: BLE001 - whatever it is, eager takes over
            self._failed(error)
            return
        finally:
            self._journal.race_seconds += time.perf_counter() - started
        self._tell(dataclasses.replace(held, contestants=held.contestants + self.absent))
        self.trains = contest.trains(args)
        if len(self.seconds) <= 1:
            self.settle()
        else:
            seconds = self.seconds
            kept = {EAGER, held.winner, *sorted(seconds, key=lambda name: seconds[name])[:KEPT]}
            self._let_go(kept)

    def _failed(self, error: Exception) -> None:
        """The next calls race again: on these inputs eager itself may raise."""
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            note = "The race failed, so eager runs it."
            self._journal.add_fallback("run", "graph", error=error, message=note)
            self.contest = self._journal.contest = Contest(EAGER, note=note)
            self.settle()

    def _tell(self, held: Contest) -> None:
        """Say who runs from now on, and what that one's journal says."""
        before, self.contest = self.contest, held
        self._journal.contest = held
        told = self._forms.journals.get(held.winner)
        if told is not None or before is not None:
            self._journal.forget_parts()
        if told is not None:
            self._journal.adopt(told)
        if self.then is not None and not held.note:
            # A store that cannot be written must not cost the user the result.
            with contextlib.suppress(OSError):
                self.then(held)

    def narrow(self) -> None:
        """Keep the winner's form and eager's alone."""
        self._let_go({EAGER, self.winner})

    def _let_go(self, kept: set[str]) -> None:
        """Drop all other forms, and their memory with them."""
        forms = self._forms.compiled
        for name in set(forms) - kept:
            forms.pop(name)

    def settle(self, name: str = "", confirmation: Confirmation | None = None) -> None:
        """Keep one form, the winner's unless told, and let the others go."""
        held = self.contest
        if held is None or self.switch is None:
            return
        name = name or held.winner
        if confirmation is not None:
            kept = name if name in self.seconds else EAGER
            self._tell(placing.confirmed(held, kept, confirmation))
        self._settled = self.form(name)
        # The losers go, and their memory with them.
        self.switch = None
