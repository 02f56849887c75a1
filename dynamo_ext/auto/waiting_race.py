"""A race that waits until the calls of a run show that a candidate can repay its compiling."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from dynamo_ext.auto import compile_costs
from dynamo_ext.measure.multi_backend import EAGER
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.timing import first_run
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.auto.autotuned_graph import AutotunedGraph
    from dynamo_ext.backends.compiler import Compiler
    from dynamo_ext.backends.journal import Journal

_TOO_SHORT = (
    "It is not raced: no backend would repay its compiling within a hundred runs. Naming backends "
    "in candidates has them raced all the same."
)


class WaitingRace:
    """``graph`` in eager until then, and ``racer`` from then on, with what can pay.

    Used where the seconds of a run are few, so that they go into what takes long. Where
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
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._eager = forward_of(graph)
        self._operations = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        self._racer = racer
        self._journal = journal
        self._race_next = race_next
        self._compilers = compilers
        self._clock = clock
        self._waits = True
        self._run: first_run.FirstRun | None = None
        self._seconds, self._least = 0.0, math.inf
        journal.contest = GraphRace(EAGER, note=_TOO_SHORT, conclusive=False)

    def __call__(self, *args: Any) -> Any:
        """Eager's result, and the race behind it where it is time for that."""
        if not self._waits:
            return self._racer(*args)
        given = first_run.current()
        if self._run is not given:
            self._run, self._seconds = given, 0.0
            self._least = min(map(self._expected, self._compilers), default=math.inf)
        started = self._clock()
        result = self._eager(*args)
        self._seconds += self._clock() - started
        # Most calls end here, in a loop thousands of them.
        if self._seconds * compile_costs.RUNS < self._least:
            return result
        able = sorted((n for n in self._compilers if not self._reason(n)), key=self._expected)
        if able and self._race_next is not None:
            self._race_next()
            self._journal.unfinished = True
        elif able and not (given.used_up() or dispatch.saving_is_watched()):
            with given.working():
                self._race(able, args)
        return result

    def _expected(self, name: str) -> float:
        return compile_costs.expected(name, self._operations)

    def _reason(self, name: str) -> str:
        return compile_costs.reason(name, self._operations, self._seconds)

    def _race(self, able: Sequence[str], args: tuple[Any, ...]) -> None:
        self._waits = False
        out = [each for each in self._compilers if each not in able]
        rows = [GraphCandidateResult(n, "not raced", reason=self._reason(n)) for n in out]
        self._racer.absent += tuple(rows)
        for name in able:
            started = self._clock()
            self._racer.compile({name: self._compilers[name]}, args)
            compile_costs.note(name, self._operations, self._clock() - started)
        self._racer.race(args, self._seconds * compile_costs.RUNS / 4)
