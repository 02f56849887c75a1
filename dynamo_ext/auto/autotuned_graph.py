"""One captured graph under ``auto``: raced, confirmed in the program, then its winner alone.

The winner of an earlier race checks its first results, and is forgotten if they are wrong.
"""

from __future__ import annotations

import dataclasses
import time
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto import graph_race, ranking
from dynamo_ext.backends import calibration, precision
from dynamo_ext.backends.fx_graph import may_differentiate
from dynamo_ext.backends.pipeline.calls.graph_call import RUN_FAILURES
from dynamo_ext.interruptions import Listening, failures
from dynamo_ext.measure.multi_backend import EAGER, MultiBackendGraph, compile_into, runs_in_engine
from dynamo_ext.measure.progress import Board
from dynamo_ext.records.autotune import GraphRace
from dynamo_ext.records.common import FULL
from dynamo_ext.timing import first_run
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.auto.program_trial import ProgramTrials
    from dynamo_ext.backends.compiler import Compiler
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.numerics.accuracy_bound import AccuracyBound
    from dynamo_ext.records.autotune import GraphCandidateResult, OnlineTrial

_WATCHED = (
    "It was not raced: it is inside torch.utils.checkpoint, which would record every tensor "
    "that a race saves."
)
_OUTSIDE = "Call it once without the checkpoint, under gradients."

KEPT = 3
"""Variants, by speed, that wait for the company of other graphs."""


class AutotunedGraph:
    """A graph in several variants until it is settled, and in one from then on.

    ``journal`` receives the race's record and the winner's partitions; ``budget`` is seconds for
    the timing; ``trials`` times it within the program; ``bound`` is what results in a lower
    precision must meet. ``trains`` says that a backward pass follows its calls.
    """

    def __init__(
        self,
        graph: GraphModule,
        journal: Journal,
        budget: float,
        trials: ProgramTrials,
        bound: AccuracyBound | None = None,
    ) -> None:
        self._eager = forward_of(graph)
        self.switch = MultiBackendGraph(0, graph, {EAGER: self._eager})
        self.contest: GraphRace | None = None
        self.trains = False
        self.absent: tuple[GraphCandidateResult, ...] = ()
        self.remember: Callable[[GraphRace], None] | None = None
        self.forget: Callable[[], None] | None = None
        self._journal = journal
        self._board = Board(journal.graph, ())
        self._budget = budget
        self._bound = bound
        self._trials = trials
        self._settled: Callable[..., Any] | None = None
        self._failures = 0

    def compile(self, compilers: Mapping[str, Compiler], inputs: Sequence[Any]) -> bool:
        """Compile the graph with each; whether any of it runs in an engine."""
        for name in (EAGER, *compilers):
            self._board.put(name, "ready" if name == EAGER else "waiting")
        compile_into(self.switch, compilers, inputs, self._board)
        return any(
            name in self.switch.journals and runs_in_engine(self.switch, name) for name in compilers
        )

    def __call__(self, *args: Any) -> Any:
        """Race at the first call; the winner runs."""
        if (settled := self._settled) is not None:
            return settled(*args)
        if dispatch.saving_is_watched():
            self._journal.add_fallback("unsupported", "graph", message=_WATCHED, remedy=_OUTSIDE)
            return self.variant(EAGER)(*args)
        if self.contest is None and calibration.is_active():
            return self.switch.calibrate(args)
        if self.contest is None:
            self.race(args, self._budget)
            if self._settled is not None:
                return self._settled(*args)
            if self.contest is None:
                return self.variant(EAGER)(*args)
        return self._trials.call(self, args)

    @property
    def winner(self) -> str:
        """The backend that won the race; eager before it."""
        return self.contest.winner if self.contest else EAGER

    @property
    def seconds(self) -> Mapping[str, float]:
        """Seconds of a call, of eager and every backend that is right, was timed, and waits."""
        rows = self.contest.contestants if self.contest else ()
        kept = [row for row in rows if row.backend in self.switch.compiled and row.seconds]
        return {row.backend: row.seconds for row in kept if row.outcome in ranking.TIMED}

    def variant(self, name: str) -> Callable[..., Any]:
        """The graph as a backend compiled it; eager's where that one has none any more."""
        variants = self.switch.compiled
        return variants.get(name, variants[EAGER])

    def race(self, args: tuple[Any, ...], budget: float) -> None:
        """Race on a call's inputs, for ``budget`` seconds at most."""
        started = time.perf_counter()
        given = first_run.current()
        if self._settled is not None or self._journal.late():
            return
        budget = min(budget, self._budget, given.left)
        try:
            # What the cell computed before may have a backward pass to come.
            with given.working(), Listening(), dispatch.versions_kept(args):
                held = graph_race.run_race(self.switch, args, budget, self._bound, self._board)
        except failures() as error:  # whatever it is, eager takes over
            self._failed(error)
            return
        finally:
            self._journal.race_seconds += time.perf_counter() - started
        if self.contest is not None:
            # Another thread's race was over before.
            return
        if given.used_up():
            # Another process may have the time for all of it.
            held = dataclasses.replace(held, conclusive=False)
        self._tell(dataclasses.replace(held, contestants=held.contestants + self.absent))
        self.trains = may_differentiate(args)
        seconds = self.seconds
        if len(seconds) <= 1:
            self.settle()
        else:
            fastest = sorted(seconds, key=lambda name: seconds[name])[:KEPT]
            full = ranking.best_full(held, seconds)
            self.keep_only({EAGER, held.winner, full, *fastest})

    def _failed(self, error: Exception) -> None:
        """The next calls race again: on these inputs eager itself may raise."""
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            note = "The race failed, so eager runs it."
            self._journal.add_fallback("run", "graph", error=error, message=note)
            self.contest = self._journal.contest = GraphRace(EAGER, note=note, conclusive=False)
            self.settle()

    def _tell(self, contest: GraphRace) -> None:
        """Report the backend that runs from now on, and what its journal says."""
        before, self.contest = self.contest, contest
        self._journal.contest = contest
        told = self.switch.journals.get(contest.winner)
        if before is None or before.winner != contest.winner:
            if told is not None or before is not None:
                self._journal.start_again()
            if told is not None:
                self._journal.merge(told)
        if self.remember is not None and contest.conclusive:
            self.remember(dataclasses.replace(contest, remembered=False))

    def let_go_of_lower(self) -> None:
        """Keep no lower precision but the winner's: no other was checked on all that runs."""
        compiled = list(self.switch.compiled)
        self.keep_only({n for n in compiled if n == self.winner or precision.behind(n) == FULL})

    def keep_full(self) -> None:
        """Run in the code's own precision from now on, in the fastest variant that is left.

        A winner of an earlier race is forgotten, so that a later process races again.
        """
        if (held := self.contest) is None:
            return
        if self.forget is not None:
            self.remember = None
            self.forget()
        if self._settled is not None:
            # Eager is all that is left, which says nothing of another process.
            self.remember, self._settled = None, self._eager
        name = ranking.best_full(held, self.switch.compiled)
        self._tell(ranking.replaced(held, name, ranking.OFF))
        self.let_go_of_lower()

    def keep_only(self, names: set[str]) -> None:
        """Drop all variants but those of these backends, and their memory with them."""
        variants = self.switch.compiled
        for name in set(variants) - names:
            variants.pop(name, None)

    def settle(self, name: str = "", confirmation: OnlineTrial | None = None) -> None:
        """Keep one variant, the winner's unless one is named, and let the others go."""
        held = self.contest
        if held is None or self._settled is not None:
            return
        name = name or held.winner
        if confirmation is not None:
            kept = name if name in self.switch.compiled else EAGER
            self._tell(ranking.replaced(held, kept, ranking.BEATEN, confirmation))
        self._settled = self.variant(name)
        # The losers go, and their memory with them; a call of another thread runs what stays.
        self.switch.compiled = {EAGER: self._settled}


class CachedWinner(AutotunedGraph):
    """A captured graph whose race, ``held``, was won before: one backend and eager.

    ``journal`` receives the backend's partitions and fallbacks; ``trials`` times it against eager
    within the program, unless that was done. ``forget`` is called where it turns out wrong.
    """

    def __init__(
        self, graph: GraphModule, journal: Journal, contest: GraphRace, trials: ProgramTrials
    ) -> None:
        super().__init__(graph, journal, 0.0, trials)
        self.contest = contest
        self._checked = False

    def __call__(self, *args: Any) -> Any:
        """Run it; after the first call, look whether the backend's own check found it right."""
        if self._settled is not None:
            return self._settled(*args)
        if self._checked:
            return self._trials.call(self, args)
        if calibration.is_active():
            return self.switch.calibrate(args)
        result = self.variant(self.winner)(*args)
        self._checked, self.trains = True, may_differentiate(args)
        journal = self.switch.journals[self.winner]
        wrong = any(f.stage in {"verify", "run"} for f in journal.fallbacks.values())
        wrong = wrong or not runs_in_engine(self.switch, self.winner)
        self._journal.merge(journal)
        if wrong or (self.contest and self.contest.confirmation is not None):
            self.settle()
        if wrong and self.forget is not None:
            self.forget()
        return result
