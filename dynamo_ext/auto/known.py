"""The winner of an earlier race, which checks its first results and is forgotten if they differ."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto import placing
from dynamo_ext.auto.contest import trains
from dynamo_ext.measure.switchboard import EAGER, Switch, compile_into, runs_in_engine

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.auto.circuit import Circuits
    from dynamo_ext.auto.laps import Laps
    from dynamo_ext.backends.compilers import Compiler
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.records import Confirmation, Contest


class Known:
    """A captured graph in one backend's form.

    Parameters
    ----------
    graph
        As Dynamo hands it over.
    journal
        Where the backend's parts and fallbacks are told.
    held
        The race that its backend won.
    circuits
        Where it is timed against eager in the company of other graphs, unless that was done.
    """

    def __init__(
        self, graph: GraphModule, journal: Journal, held: Contest, circuits: Circuits
    ) -> None:
        self._switch: Switch | None = Switch(0, graph, {EAGER: graph.forward})
        self._journal = journal
        self._held = held
        self._eager: Callable[..., Any] = graph.forward
        self._form = self._eager
        self._circuits = None if held.confirmation is not None else circuits
        self.laps: Laps | None = None
        self.waited = 0
        self.trains = False
        self.winner = held.winner
        self.forget: Callable[[], None] | None = None
        self.remember: Callable[[Contest], None] | None = None

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of a call, of eager and of the winner."""
        found = placing.timed(self._held)
        return {name: found[name] for name in (EAGER, self.winner) if name in found}

    def form(self, name: str) -> Callable[..., Any]:
        """The graph in its winner's form; in eager's for every other name."""
        return self._form if name == self.winner else self._eager

    def narrow(self) -> None:
        """Nothing: there are no other forms."""

    def compile(self, compiler: Compiler, inputs: Sequence[Any]) -> bool:
        """Compile it; whether anything of it runs in the engine."""
        switch = self._switch
        if switch is None:
            return False
        compile_into(switch, {self.winner: compiler}, inputs)
        if self.winner in switch.errors or not runs_in_engine(switch, self.winner):
            return False
        self._form = switch.compiled[self.winner]
        return True

    def __call__(self, *args: Any) -> Any:
        """Run it; after the first call, look whether the backend's own check found it right."""
        switch = self._switch
        if switch is None:
            if self._circuits is not None:
                return self._circuits.call(self, args)
            return self._form(*args)
        result = self._form(*args)
        self._switch = None
        self.trains = trains(args)
        wrong = any(f.stage in {"verify", "run"} for f in switch.fallbacks(self.winner))
        wrong = wrong or not runs_in_engine(switch, self.winner)
        self._journal.adopt(switch.journals[self.winner])
        if wrong:
            self._circuits = None
            if self.forget is not None:
                # A store that cannot be written must not cost the user the result.
                with contextlib.suppress(OSError):
                    self.forget()
        return result

    def settle(self, name: str = "", confirmation: Confirmation | None = None) -> None:
        """Keep one form, the winner's unless told."""
        self._circuits = None
        kept = self.winner if name in {"", self.winner} else EAGER
        if kept == EAGER:
            self._form = self._eager
            self._journal.forget_parts()
        if confirmation is None:
            return
        self._held = placing.confirmed(self._held, kept, confirmation)
        self._journal.contest = self._held
        if self.remember is not None:
            with contextlib.suppress(OSError):
                self.remember(dataclasses.replace(self._held, remembered=False))
