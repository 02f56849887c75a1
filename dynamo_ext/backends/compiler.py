"""The objects that Dynamo gets as its backend: one for each name and set of options.

Dynamo tells compiled code apart by the identity of the backend, so ``registry`` hands out the
same object for the same request.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import crash_records, precision
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.base import fact
from dynamo_ext.interruptions import Listening
from dynamo_ext.records.common import Availability
from dynamo_ext.timing import compile_costs, first_run

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.base import Backend, Options
    from dynamo_ext.numerics.accuracy_bound import AccuracyBound
    from dynamo_ext.records.report import FallbackStage

_REMEDY = "Compile it again with more of them, as in options={'first_run': 60}, or with no limit."
_AVAILABLE = Availability(available=True)


class Compiler:
    """A backend with its options resolved: ``(graph, example_inputs) -> callable``.

    ``name`` is the backend's, with a precision where one was asked for (``openvino:bf16``).
    A backend that cannot run here leaves every graph to eager, and says so. ``given`` is what
    compiling, later checks included, has in all where the option ``first_run`` says so. ``bound``
    is the user's for what is in a lower precision, and whether it is strict.
    """

    def __init__(
        self,
        backend: Backend,
        options: Options,
        availability: Availability = _AVAILABLE,
        bound: tuple[AccuracyBound | None, bool] = (None, False),
    ) -> None:
        self.name = precision.label(backend.name, options)
        self.availability = availability
        self.backend = backend
        self.bound = bound
        self.options: Mapping[str, Any] = dict(options)
        seconds = self.options.get("first_run")
        self.given = None if seconds is None else first_run.FirstRun(seconds, _REMEDY)
        # Dynamo and its logs name a backend by this.
        self.__name__ = self.name

    def with_own_seconds(self) -> Compiler:
        """One that shares its ``given`` with nothing compiled before; itself where it has none."""
        own = self.given is not None
        return Compiler(self.backend, self.options, self.availability, self.bound) if own else self

    def within(self, bound: AccuracyBound | None, *, strict: bool = False) -> Compiler:
        """One whose graphs have the user's bound of a lower precision; itself where there is none.

        In int8, products stay in float32 where that meets it. Eager runs what misses a ``strict``
        one; with any other it runs as it is, if it meets its precision's own bound. A bound of a
        function of the user's says nothing of one graph.
        """
        if bound is None:
            return self
        return Compiler(self.backend, self.options, self.availability, (bound.of_graphs, strict))

    def __repr__(self) -> str:
        chosen = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{type(self).__name__}({self.name!r}{', ' if chosen else ''}{chosen})"

    @property
    def unsettled_calls(self) -> int:
        """Calls so far of graphs that the backend still runs now in one form, now in another."""
        return int(fact(self.backend, "unsettled_calls"))

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a captured graph; failures give the graph itself, and a word in the journal."""
        given = self.given
        if given is None:
            return self._compiled(graph, example_inputs)
        with first_run.within(given):
            made = self._compiled(graph, example_inputs)

        def call(*args: Any) -> Any:
            # A first call checks, and one of other sizes compiles.
            with first_run.within(given):
                return made(*args)

        return call

    def _compiled(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        # Torch is imported by these, and not with the names of the backends.
        from dynamo_ext.backends.compile_context import CompileContext
        from dynamo_ext.backends.passes.noop_dropout import give_inputs
        from dynamo_ext.backends.pipeline.checkpointing import keep_random_state
        from dynamo_ext.backends.pipeline.compilation import compile_graph
        from dynamo_ext.torch_private.entered_modes import forward_of

        keep_random_state(graph)
        give_inputs(graph)
        journal = journals.current()

        def refused(
            stage: FallbackStage, message: str, remedy: str, lack: str = ""
        ) -> Callable[..., Any]:
            journal.add_fallback(stage, "graph", message=message, remedy=remedy, lack=lack)
            return forward_of(graph)

        if not self.availability.available:
            lack = self.availability.reason
            message = f"{self.name} is not available: {lack}"
            return refused("unavailable", message, self.availability.remedy, lack)
        # One that tries others counts their time itself, and each of those has its record.
        compiles = not fact(self.backend, "self_verifying") and self.name != "eager"
        attempt = None
        if compiles:
            version = self.availability.version
            attempt = crash_records.Attempt.of(self.name, version, graph, example_inputs)
        operations = sum(node.op.startswith("call_") for node in graph.graph.nodes)
        given, whole = first_run.current(), self.backend.whole_graph
        expected = given.usual(self.name) if compiles else 0.0
        if self.name in compile_costs.seen:
            expected = compile_costs.expected(self.name, operations, whole=whole)
        if journal.late("graph", expected=expected):
            journal.unfinished = self.given is None
            return forward_of(graph)
        if attempt is not None and (died := attempt.died()) is not None:
            return refused("unavailable", died.message, crash_records.REMEDY)
        context = CompileContext(self.backend, self.options, journal, attempt, *self.bound)
        recorded = crash_records.during(attempt, "compiling")
        started = time.perf_counter()
        with given.working(self.name), Listening(), recorded:
            compiled = compile_graph(graph, example_inputs, context)
        if compiles:
            took = time.perf_counter() - started
            given.loaded(compile_costs.note(self.name, operations, took, whole=whole))
        return compiled
