"""The winner of an earlier race, which checks its first results and is forgotten if they differ."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.auto.graph_race import trains
from dynamo_ext.interruptions import suppressed
from dynamo_ext.measure.multi_backend import runs_in_engine

if TYPE_CHECKING:
    from collections.abc import Callable

    from torch.fx import GraphModule

    from dynamo_ext.auto.call_cycle import CallCycles
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.records.autotune import GraphRace


class CachedWinner(AutotunedGraph):
    """A captured graph whose race, ``held``, was won before: one backend and eager.

    ``journal`` receives the backend's partitions and fallbacks; ``cycles`` times it against eager
    within the program, unless that was done. ``forget`` is called where it turns out wrong.
    """

    def __init__(
        self, graph: GraphModule, journal: Journal, held: GraphRace, cycles: CallCycles
    ) -> None:
        super().__init__(graph, journal, 0.0, cycles)
        self.contest = held
        self.forget: Callable[[], None] | None = None
        self._checked = False

    def __call__(self, *args: Any) -> Any:
        """Run it; after the first call, look whether the backend's own check found it right."""
        if self._settled is not None:
            return self._settled(*args)
        if self._checked:
            return self._cycles.call(self, args)
        variants, winner = self.switch, self.winner
        if variants is None:
            # Another thread has just settled it.
            return self(*args)
        result = variants.compiled[winner](*args)
        self._checked, self.trains = True, trains(args)
        wrong = any(f.stage in {"verify", "run"} for f in variants.fallbacks(winner))
        wrong = wrong or not runs_in_engine(variants, winner)
        self._journal.merge(variants.journals[winner])
        if wrong or (self.contest and self.contest.confirmation is not None):
            self.settle()
        if wrong and self.forget is not None:
            # A store that cannot be written must not cost the user the result.
            with suppressed(OSError):
                self.forget()
        return result
