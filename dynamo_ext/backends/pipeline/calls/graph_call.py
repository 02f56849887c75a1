"""A captured graph at run time: its compiled form, and eager whenever that fails.

Until a call has gone well, what it may change is kept: a failed one is undone, and eager takes
over. From then on an exception is raised where the graph may have changed something. Of a graph
that adds to its input in place::

    call 1    keeps a copy of the input; the engine fails halfway; the copy is put back; eager
    call 2    the same with results that the check finds wrong: eager, for good
    call 9    of an engine that was right before: it fails, and the exception is raised
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import crash_records, effects
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline.calls.graph_check import GraphCheck, Outcome
from dynamo_ext.backends.undo import Undo
from dynamo_ext.interruptions import failures
from dynamo_ext.numerics.rng_state import TorchState
from dynamo_ext.timing import first_run
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of, is_forward

RUN_FAILURES = 3
"""Failed calls after which a graph, or a partition, stays in eager."""

_REMEDY = "This call ran eagerly; try another backend."


class GraphCall:
    """Calls what a backend made of a graph, as Dynamo calls it; ``eager`` runs the graph itself.

    ``check`` compares the first results. Eager runs a call where one of ``refusals`` says so of its
    arguments. Where eager raises, too, and all is as before the call, ``replay`` is called before
    the exception is raised; and with an interrupt of the first call, before that is raised.
    """

    def __init__(
        self,
        graph: GraphModule,
        run: Callable[..., Any],
        journal: Journal,
        *,
        check: GraphCheck | None = None,
        attempt: crash_records.Attempt | None = None,
    ) -> None:
        self.eager = forward_of(graph)
        self.refusals: tuple[Callable[[Sequence[Any]], bool], ...] = ()
        self.replay: Callable[..., None] = lambda *_: None
        self._run = self.eager if is_forward(run, graph) else run
        self._journal = journal
        self._check = check
        self._attempt = attempt
        self._failures = 0
        self._proven = False
        self._effects = effects.of_graph(graph)
        self._only_draws = self._effects.draws and not self._effects.changes
        # An optimizer's weights are not inputs of its graph: the graph holds them.
        self._held = held_tensors(graph) if self._effects.changes else []

    def __call__(self, *args: Any) -> Any:
        """Run it; eagerly where it fails and its effects can be undone."""
        if self.refusals and any(refuses(args) for refuses in self.refusals):
            return self.eager(*args)
        if not self._proven:
            return self._first(args)
        before = TorchState() if self._only_draws else None
        try:
            return self._run(*args)
        except KeyboardInterrupt as interrupt:
            if self._undone(before):
                self.replay(interrupt)
            raise
        except failures() as error:  # any failure of an engine means eager
            failure = error
        return self._recovered(failure, args, before)

    def _first(self, args: Sequence[Any]) -> Any:
        """A call before one has gone well, with the check of its results if there is time."""
        if any(map(dispatch.is_fake, args)):
            return self.eager(*args)
        if self._check is None:
            return self._tried(args)
        if self._journal.late():
            return self.eager(*args)
        with first_run.current().working():
            return self._tried(args)

    def _tried(self, args: Sequence[Any]) -> Any:
        undo = Undo([*args, *self._held], draws=self._effects.draws) if any(self._effects) else None
        expected = self._check.expected(args, self._held, undo) if self._check else None
        try:
            with crash_records.during(self._attempt, "first running"):
                outputs = self._run(*args)
        except KeyboardInterrupt as interrupt:
            if self._undone(undo):
                self.replay(interrupt)
            raise
        except failures() as error:
            failure = error
        else:
            return self._checked(args, outputs, expected, undo)
        return self._recovered(failure, args, undo)

    def _checked(
        self, args: Sequence[Any], outputs: Any, expected: Outcome | None, undo: Undo | None
    ) -> Any:
        """What a first call gives: the engine's results, or eager's where those are wrong."""
        self._proven = self._check is None or self._check.is_final()
        if self._check is None or expected is None:
            return outputs
        wrong = self._check.wrong(args, self._held, undo, outputs, expected)
        if not wrong:
            return outputs
        # What autograd has recorded of an input cannot be undone: the result has to stay then.
        undone = undo is None or undo.restore()
        self._run = self.eager
        for name, partition in list(self._journal.partitions.items()):
            self._journal.partitions[name] = replace(partition, engine="eager", reason=wrong)
        self._journal.add_fallback("verify", "graph", message=wrong, remedy=self._check.remedy)
        return self.eager(*args) if undone else outputs

    def _recovered(
        self, failure: Exception, args: Sequence[Any], before: Undo | TorchState | None
    ) -> Any:
        """Eager's result where only the engine failed; else the exception is raised."""
        if dispatch.ends_recomputation(failure) or not self._undone(before):
            # Some of its effects may have come about: run again, it would have them twice.
            raise failure
        if self._run is not self.eager:
            try:
                outputs = self.eager(*args)
            except failures() as error:  # the fault is the user's, and theirs to see
                failure = error
            else:
                self._failures += 1
                if self._failures >= RUN_FAILURES:
                    self._run, self._proven = self.eager, True
                self._journal.add_fallback("run", "graph", error=failure, remedy=_REMEDY)
                return outputs
        if self._undone(before):
            self.replay()
        raise failure

    def _undone(self, before: Undo | TorchState | None) -> bool:
        """Whether what runs next finds, and draws, what the failed call did."""
        if before is None:
            return not any(self._effects)
        return before.restore() is not False
