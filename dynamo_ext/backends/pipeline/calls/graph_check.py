"""Whether the first call of a compiled graph gives its caller what eager would give.

What is compared is what the caller gets: the results, whose memory they are in, and what has become
of the inputs. Partitions are compared by their runners; this finds what goes wrong behind them, as
where AOTAutograd copies a new value back, or makes a view. Its reference is eager on copies of the
inputs. Graphs that draw random numbers are not compared: a compiler may draw them otherwise.
"""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import calibration, precision
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.undo import Undo
from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics import higher_precision, verdict
from dynamo_ext.records.common import FULL
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

_LEVELS = frozenset({"_grad_increment_nesting", "_jvp_increment_nesting"})


class Outcome(NamedTuple):
    """What a call gave, and the tensors that it was given or that the graph holds, after it."""

    results: Sequence[Any]
    inputs: Sequence[Any]
    held: Sequence[Any]

    def values(self, *, changed: bool) -> list[Any]:
        """The results, and behind them the tensors where those may have ``changed``."""
        return [*self.results, *((*self.inputs, *self.held) if changed else ())]

    def names(self) -> list[str]:
        """What a sentence calls the values, in their order."""
        kinds = zip(("Output", "Input", "Attribute"), self, strict=True)
        return [f"{kind} {number}" for kind, values in kinds for number in range(len(values))]


class GraphCheck:
    """Compares a call of a compiled graph with eager, or in a lower precision with float64.

    With a lower precision among the options, results may be as far from the exact ones as
    ``lowered_precision`` allows, and as the user's bound does. ``held`` are tensors that the graph
    holds and may change; ``undo`` is there where it has effects.
    """

    def __init__(self, graph: GraphModule, context: CompileContext) -> None:
        self._graph = graph
        self._eager = forward_of(graph)
        self._context = context
        self.remedy = "" if context.precision == FULL else precision.REMEDY
        # Where derivatives of torch.func raise without gradients, the levels they entered stay.
        names = {getattr(node.target, "__name__", "") for node in graph.graph.nodes}
        self._compares = _LEVELS.isdisjoint(names)

    def is_final(self) -> bool:
        """Whether no later call is to be checked: one that calibrates int8 runs in eager."""
        return not (calibration.is_active() and self._context.precision == "int8")

    def expected(
        self, args: Sequence[Any], weights: Sequence[torch.Tensor], undo: Undo | None
    ) -> Outcome | None:
        """What eager makes of such inputs; ``None`` where that cannot be the reference."""
        given = _copies(args, undo) if self._compares else None
        if given is None:
            return None
        found = None
        try:
            # If eager raises, there is nothing to compare with.
            with suppressed(Exception), dispatch.outside_modes(), torch.no_grad():
                outputs = _flat(self._eager(*given))
                found = Outcome(outputs, given, [each.detach().clone() for each in weights])
            return None if undo is not None and undo.drew() else found
        finally:
            if undo is not None:
                undo.restore()

    def wrong(
        self,
        args: Sequence[Any],
        weights: Sequence[torch.Tensor],
        undo: Undo | None,
        outputs: Any,
        expected: Outcome,
    ) -> str:
        """What the caller gets that is not what eager gives, as one sentence, or nothing."""
        found = Outcome(_flat(outputs), args, weights)
        changed = undo is not None
        exact = functools.cache(lambda: self._exact(args, undo, expected))
        wrong = verdict.disagreement(
            found.values(changed=changed),
            expected.values(changed=changed),
            lambda: exact().values(changed=changed),
            self._context.precision,
            names=found.names(),
        )
        if not wrong and self._context.refuses:
            wrong = self._context.missed(found.results, exact().results)
        if not wrong and _places(found) != _places(expected):
            return "A result is not the view of an input, or of another result, that eager gives."
        return wrong

    def _exact(self, args: Sequence[Any], undo: Undo | None, expected: Outcome) -> Outcome:
        """What the graph gives at a higher precision; eager's where it does not run so."""
        given = None if expected.held else _copies(args, undo)
        if given is None:
            return expected
        values = [*expected.results, *expected.inputs]
        exact = higher_precision.exact(self._graph, given, values)
        count = len(expected.results)
        return Outcome(exact[:count], exact[count:], expected.held)


def _flat(outputs: Any) -> Sequence[Any]:
    return outputs if isinstance(outputs, (tuple, list)) else (outputs,)


def _copies(args: Sequence[Any], undo: Undo | None) -> Sequence[Any] | None:
    """What the graph may be run on beside the call: the inputs, as copies where it changes them."""
    if undo is not None:
        copies = undo.copies()
        return copies and copies[: len(args)]
    tensors = [each for each in args if isinstance(each, torch.Tensor)]
    return args if all(map(dispatch.is_plain_tensor, tensors)) else None


def _places(outcome: Outcome) -> list[object]:
    """For each result the position of the first tensor in its memory, and its own layout there."""
    owners = list(map(address_of, (*outcome.inputs, *outcome.results)))
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


def address_of(value: Any) -> int | None:
    """Where the memory begins that a tensor's elements are in; ``None`` of anything else."""
    if not dispatch.is_plain_tensor(value) or not value.numel():
        return None
    address: int = value.untyped_storage().data_ptr()
    return address
