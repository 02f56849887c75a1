"""A compiled graph at run time: the check of its first call, and eager whenever it fails.

The check compares what the caller gets: the results, whose memory they are in, and what has become
of the inputs. Partitions are compared by their runners; this finds what goes wrong behind them, as
where AOTAutograd copies a new value back, or makes a view. Its reference is eager on copies of the
inputs. Graphs that draw random numbers are not compared: a compiler may draw them otherwise.

Until a call has gone well, what it may change is kept: a failed one is undone, and eager takes
over. From then on an exception is raised where the graph may have such effects.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import torch

from dynamo_ext.backends import calibration, crash_records, effects, precision
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.backends.undo import Undo
from dynamo_ext.interruptions import pass_on
from dynamo_ext.numerics import higher_precision, lowered_precision, tolerance
from dynamo_ext.records.common import FULL
from dynamo_ext.timing import first_run
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.compile_context import CompileContext

RUN_FAILURES = 3
"""Failed calls after which a graph, or a partition, stays in eager."""

_LEVELS = frozenset({"_grad_increment_nesting", "_jvp_increment_nesting"})


class GraphCall:
    """``call(*args)`` runs a compiled graph; ``graph`` is the captured one, which is eager's.

    With a lower precision among the options, results may be as far from the exact ones as
    ``lowered_precision`` allows.
    """

    def __init__(
        self,
        graph: GraphModule,
        run: Callable[..., Any],
        context: CompileContext,
        *,
        check: bool,
    ) -> None:
        self._graph = graph
        self._precision = precision.of(context.options)
        self._eager = forward_of(graph)
        self._run = run
        self._journal = context.journal
        # Where derivatives of torch.func raise without gradients, the levels they entered stay.
        names = {getattr(node.target, "__name__", "") for node in graph.graph.nodes}
        self._check = check and _LEVELS.isdisjoint(names)
        self._context = context
        self._failures = 0
        self._proven = False
        self._effects = effects.of_graph(graph)
        # An optimizer's weights are not inputs of its graph: the graph holds them.
        self._held = held_tensors(graph) if self._effects.changes else []

    def call(self, *args: Any) -> Any:
        """Run it; eagerly where it fails and its effects can be undone."""
        if not self._proven:
            return self._checked(args) if self._check else self._first(args)
        try:
            return self._run(*args)
        except Exception as error:
            pass_on(error)
            if any(self._effects) or dispatch.ends_recomputation(error):
                # Some of its effects may have come about: run again, it would have them twice.
                raise
            return self._failed(error, args)

    def _checked(self, args: Sequence[Any]) -> Any:
        """A call with a check of its results, if there is time for it."""
        if self._journal.late():
            return self._eager(*args)
        with first_run.current().working():
            return self._first(args)

    def _first(self, args: Sequence[Any]) -> Any:
        """A call whose effects can be undone, until one has gone well."""
        if any(map(dispatch.is_fake, args)):
            return self._eager(*args)
        undo = None
        if any(self._effects):
            undo = Undo([*args, *self._held], draws=self._effects.draws)
        expected = self._expected(args, undo) if self._check else None
        try:
            with crash_records.during(self._context.attempt, "first running"):
                outputs = self._run(*args)
        except Exception as error:
            pass_on(error)
            if dispatch.ends_recomputation(error) or not (undo is None or undo.restore()):
                raise
            return self._failed(error, args)
        wrong, undone = "", False
        if expected is not None:
            right = expected if self._precision == FULL else self._exact(args, undo, expected)
            wrong = self._wrong(args, undo, outputs, expected, right)
            # What autograd has recorded of an input cannot be undone: the result has to stay then.
            undone = bool(wrong) and (undo is None or undo.restore())
        # What calibrates int8 runs in eager, so a later call is to be checked.
        self._proven = not (calibration.is_active() and self._precision == "int8")
        if not wrong:
            return outputs
        self._run = self._eager
        for name, partition in list(self._journal.partitions.items()):
            self._journal.partitions[name] = replace(partition, engine="eager", reason=wrong)
        remedy = "" if self._precision == FULL else precision.REMEDY
        self._journal.add_fallback("verify", "graph", message=wrong, remedy=remedy)
        return self._eager(*args) if undone else outputs

    def _expected(self, args: Sequence[Any], undo: Undo | None) -> _Outcome | None:
        """What eager makes of such inputs; ``None`` where that cannot be the reference."""
        given = _copies(args, undo)
        if given is None:
            return None
        try:
            with dispatch.outside_modes(), torch.no_grad():
                outputs = _flat(self._eager(*given))
                held = [each.detach().clone() for each in self._held]
        except Exception as error:  # noqa: BLE001 - no reference then
            pass_on(error)
            return None
        else:
            drew = undo is not None and undo.drew()
            return None if drew else _Outcome(outputs, given, held)
        finally:
            if undo is not None:
                undo.restore()

    def _wrong(
        self,
        args: Sequence[Any],
        undo: Undo | None,
        outputs: Any,
        expected: _Outcome,
        right: _Outcome,
    ) -> str:
        """What the caller gets that is not what eager gives, as one sentence, or nothing.

        ``right`` is what values are compared with: what eager gives, or the exact ones.
        """
        found = _Outcome(_flat(outputs), args, self._held)
        changed, lower = undo is not None, self._precision != FULL
        differ: Callable[..., str] = tolerance.disagreement
        if lower:
            differ = functools.partial(lowered_precision.disagreement, precision=self._precision)
        wrong = differ(found.results, right.results)
        if not wrong and self._context.refuses:
            wrong = self._context.missed(found.results, right.results)
        if not wrong and _places(found) != _places(expected):
            return "A result is not the view of an input, or of another result, that eager gives."
        if not wrong and changed:
            wrong = differ(found.inputs, right.inputs, what="Input")
            wrong = wrong or differ(found.held, right.held, what="Attribute")
        given = _copies(args, undo) if wrong and not (lower or self._held) else None
        if given is None:
            return wrong
        values = [[*each.results, *(each.inputs if changed else ())] for each in (found, expected)]
        return "" if higher_precision.as_good_as_eager(self._graph, given, *values) else wrong

    def _exact(self, args: Sequence[Any], undo: Undo | None, expected: _Outcome) -> _Outcome:
        """What the graph gives at a higher precision; eager's where it does not run so."""
        given = None if self._held else _copies(args, undo)
        if given is None:
            return expected
        values = [*expected.results, *expected.inputs]
        exact = higher_precision.exact(self._graph, given, values)
        count = len(expected.results)
        return _Outcome(exact[:count], exact[count:], expected.held)

    def _failed(self, error: Exception, args: Sequence[Any]) -> Any:
        # Eager first: where it raises too, the fault is the user's, and theirs to see.
        outputs = self._eager(*args)
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            self._run = self._eager
            self._proven = True
        self._journal.add_fallback("run", "graph", error=error)
        return outputs


class _Outcome(NamedTuple):
    """What a call gave, and the tensors that it was given or that the graph holds, after it."""

    results: Sequence[Any]
    inputs: Sequence[Any]
    held: Sequence[Any]


def _flat(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def _copies(args: Sequence[Any], undo: Undo | None) -> Sequence[Any] | None:
    """What the graph may be run on beside the call: the inputs, as copies where it changes them."""
    if undo is not None:
        copies = undo.copies()
        return copies and copies[: len(args)]
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return args if all(map(dispatch.is_plain_tensor, tensors)) else None


def _places(outcome: _Outcome) -> list[object]:
    """Of each result, what comes first in its memory, and how it lies there if that is another."""
    owners = list(map(memory_of, (*outcome.inputs, *outcome.results)))
    count = len(outcome.inputs)
    places: list[object] = []
    for position, result in enumerate(outcome.results, count):
        first = owners.index(owners[position])
        strides = offset = None
        if owners[position] is not None and first < position:
            sizes = zip(result.shape, result.stride(), strict=True)
            strides = [stride for size, stride in sizes if size > 1]
            # A result that an engine made may begin anywhere in its memory.
            offset = result.storage_offset() if first < count else None
        places.append((first, strides, offset))
    return places


def memory_of(value: Any) -> int | None:
    """The memory that a tensor's elements are in; ``None`` of anything else."""
    if not dispatch.is_plain_tensor(value) or not value.numel():
        return None
    address: int = value.untyped_storage().data_ptr()
    return address
