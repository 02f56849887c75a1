"""The objects that Dynamo gets as its backend: one for each name and set of options.

Dynamo tells compiled code apart by the identity of the backend, so ``registry`` hands out the
same object for the same request.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import patience
from dynamo_ext.backends.checkpointing import as_captured, keep_random_state
from dynamo_ext.backends.idle_dropout import give_inputs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.base import Backend, Options
    from dynamo_ext.records import Availability


class Compiler:
    """A backend with its options settled: ``(graph, example_inputs) -> callable``.

    Parameters
    ----------
    backend
        Who lowers.
    options
        Resolved options, one for each spec of the backend.
    """

    def __init__(self, backend: Backend, options: Options) -> None:
        self.name = backend.name
        self.backend = backend
        self.options: Mapping[str, Any] = dict(options)
        # Dynamo and its logs name a backend by this.
        self.__name__ = backend.name

    def __repr__(self) -> str:
        chosen = ", ".join(f"{key}={value!r}" for key, value in self.options.items())
        return f"{type(self).__name__}({self.name!r}{', ' if chosen else ''}{chosen})"

    def __reduce__(self) -> tuple[Any, ...]:
        from dynamo_ext.backends.registry import compiler

        return compiler, (self.name, dict(self.options))

    @property
    def on_trial(self) -> int:
        """Calls so far of graphs that the backend still runs now in one form, now in another."""
        return getattr(self.backend, "on_trial", 0)

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile a captured graph; failures give the graph itself, and a word in the journal."""
        from dynamo_ext.backends import pipeline, whole

        keep_random_state(graph)
        give_inputs(graph)
        take = whole.compile_graph if self.backend.whole_graph else pipeline.compile_graph
        journal = journals.current()

        def compiled() -> Callable[..., Any]:
            return take(graph, example_inputs, self.backend, self.options, journal)

        # One that tries others gives each of them its time.
        tries = getattr(self.backend, "checks_itself", False)
        try:
            return compiled() if tries else patience.bounded(compiled)
        except TimeoutError as error:
            journal.forget_parts()
            journal.add_fallback("lower", "graph", error=error, remedy=patience.REMEDY)
            return as_captured(graph)


class UnavailableCompiler(Compiler):
    """Stands in for a backend that cannot run here: everything runs eagerly, and says so."""

    def __init__(self, backend: Backend, options: Options, availability: Availability) -> None:
        super().__init__(backend, options)
        self.availability = availability

    def __call__(self, graph: GraphModule, example_inputs: Sequence[Any]) -> Callable[..., Any]:  # noqa: ARG002
        """Run the graph eagerly and journal why."""
        journals.current().add_fallback(
            "unavailable",
            "graph",
            operator="",
            message=f"{self.name} is not available: {self.availability.reason}",
            remedy=self.availability.remedy,
        )
        return as_captured(graph)
