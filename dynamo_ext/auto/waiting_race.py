"""A race that waits until the calls of a run show that a candidate can repay its compiling."""

import math
import time
from collections.abc import Callable, Mapping
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.backends import precision, registry
from dynamo_ext.backends.base import fact
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.journal import Journal
from dynamo_ext.measure.multi_backend import EAGER
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.timing import compile_costs, first_run
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

RUNS = 100
"""Runs of the code within which a candidate has to repay its compiling."""

SHARE = 0.02
"""Of a run of the code, what the calls of a graph take that is raced."""

_LITTLE = f"Graphs that take under {SHARE:.0%} of the cell's time are not raced."
_LATER = "What takes more of the cell's time is raced first: each run of the cell goes on."
_TOO_SHORT = "No backend would repay its compiling within a hundred runs of it."


class WaitingRace:
    """``graph`` in eager until then, and ``racer`` from then on, with what can pay.

    Used where the seconds of a run are few, so that they go into what takes long: of several graphs
    the one races first that takes the most of the cell's time, by this run and the one before. The
    candidates are compiled in the order of what they promise by earlier races. Where
    ``race_next`` is given, the graph can be compiled only where it is captured, for its symbolic
    sizes: this is called, and the next run captures the graph again.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - what is raced, and when
        self,
        graph: GraphModule,
        racer: AutotunedGraph,
        compilers: Mapping[str, Compiler],
        journal: Journal,
        race_next: Callable[[], object] | None = None,
        promises: Callable[[], Mapping[str, float]] = dict,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._eager = forward_of(graph)
        self._operations = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        self._racer = racer
        self._journal = journal
        self._race_next = race_next
        self._promises = promises
        self._compilers = compilers
        self._clock = clock
        self._waits = True
        self._run: first_run.FirstRun | None = None
        self._seconds, self._look = 0.0, math.inf
        self._say(_TOO_SHORT)

    def __call__(self, *args: Any) -> Any:
        """Eager's result, and the race behind it where it is time for that."""
        if not self._waits:
            return self._racer(*args)
        given = first_run.current()
        if self._run is not given:
            self._run, self._seconds = given, 0.0
            least = min(map(self._expected, self._compilers), default=math.inf)
            self._look = least / RUNS
        started = self._clock()
        result = self._eager(*args)
        self._seconds += self._clock() - started
        # Most calls end here, in a loop thousands of them.
        if self._seconds < self._look:
            return result
        self._look = 1.1 * self._seconds
        if all(map(self._reason, self._compilers)) or dispatch.saving_is_watched():
            return result
        given.waiting[self] = self._seconds
        if why := self._waits_for(given):
            self._say(why)
        elif self._race_next is not None:
            del given.waiting[self]
            self._race_next()
            self._journal.unfinished = True
        elif given.used_up():
            self._say(_LATER)
        else:
            for run in filter(None, (given, given.before)):
                run.waiting.pop(self, None)
            with given.working():
                self._race(args)
        return result

    def _say(self, note: str) -> None:
        self._journal.contest = GraphRace(EAGER, note=note, conclusive=False)

    def _waits_for(self, budget: first_run.FirstRun) -> str:
        """Why it is not its turn: it takes little of the cell's time, or others take more."""
        if math.isinf(budget.seconds):
            # No run of a cell: what waited in one is called by other code.
            return ""
        last = budget.before
        known = {} if last is None else dict(last.waiting)
        seconds, ran = self._seconds, budget.running
        if last is not None and self in known:
            seconds, ran = known[self], last.ran
        if seconds < SHARE * ran:
            return _LITTLE
        for each, now in list(budget.waiting.items()):
            known[each] = max(now, known.get(each, 0.0))
        return _LATER if known[self] < max(known.values()) else ""

    def _expected(self, name: str) -> float:
        whole = fact(registry.get(precision.split(name)[0]), "whole_graph")
        return compile_costs.expected(name, self._operations, whole=whole)

    def _reason(self, name: str, spent: float = 0.0) -> str:
        """Why a candidate cannot pay after so many seconds of others; nothing where it can."""
        seconds, eager = self._expected(name), RUNS * self._seconds
        if spent > eager:
            return f"Compiling others took as long as {RUNS} runs of the graph in eager."
        if seconds <= eager:
            return ""
        return (
            f"Compiling it takes some {seconds:.1f} s, and {RUNS} runs of the graph in eager "
            f"{eager:.1f} s."
        )

    def _race(self, args: tuple[Any, ...]) -> None:
        self._waits, spent, promises = False, 0.0, self._promises()
        cheap_first = sorted(self._compilers, key=self._expected)
        for name in sorted(cheap_first, key=lambda name: -promises.get(name, 1.0)):
            if reason := self._reason(name, spent):
                self._racer.absent += (GraphCandidateResult(name, "not raced", reason=reason),)
                continue
            started = self._clock()
            self._racer.compile({name: self._compilers[name]}, args)
            spent += (took := self._clock() - started)
            # The call that waits for it would count it as the cell's own work.
            self._journal.race_seconds += took
        self._racer.race(args, self._seconds * RUNS / 4)
