"""Inputs that share memory, where a graph changes one of them: eager runs it.

Dynamo guards on which inputs are one object, and not on which reach into the memory of another. So
code compiled for inputs apart is called with ``x`` and ``x[1:]``, too, and what it writes to one
is not seen in the other. Code compiled for such inputs has their distance written into it.

An input whose own elements share memory, as an expanded one, gets the whole of its new value back
behind a compiled graph: torch refuses that, or one element's old value overwrites another's new.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline.input_views import root_of, written
from dynamo_ext.torch_private import dispatch

MESSAGE = (
    "The graph changes an input in place whose memory is shared: by another input, or by its own "
    "elements."
)
REMEDY = "Pass a clone where that is meant, or leave it: eager is right."


class Overlaps:
    """Which inputs of a captured graph must not share memory for compiled code to be right.

    Parameters, and tensors that Dynamo knows to stay where they are, do not come to overlap later,
    and are not looked at.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any]) -> None:
        placeholders = graph.graph.find_nodes(op="placeholder")
        roots = set(map(root_of, filter(None, map(written, graph.graph.nodes))))
        moving = [
            position
            for position, value in enumerate(inputs)
            if dispatch.is_plain_tensor(value) and not dispatch.stays_put(value)
        ]
        self._changed = [i for i in moving if placeholders[i] in roots]
        self._watched = moving if self._changed else []

    def found(self, args: Sequence[Any]) -> bool:
        """Whether, in a call, something that the graph changes reaches into an input's memory."""
        watched = [args[position] for position in self._watched]
        try:
            owners = {each.untyped_storage().data_ptr() for each in watched}
        except RuntimeError:
            # Fake tensors are in no memory.
            return False
        # Dynamo does not guard on a symbolic size, which may reach beyond a stride.
        if any(_overlaps_itself(args[position]) for position in self._changed):
            return True
        if len(owners) == len(watched):
            return False
        spans = {position: _span(args[position]) for position in self._watched}
        return any(
            position != other and start < spans[other][1] and spans[other][0] < end
            for position in self._changed
            for start, end in [spans[position]]
            for other in self._watched
        )

    def refusals(self, journal: Journal) -> tuple[Callable[[Sequence[Any]], bool], ...]:
        """What has eager run a call whose inputs share what is changed; nothing where none can."""

        def refuses(args: Sequence[Any]) -> bool:
            shared = self.found(args)
            if shared:
                journal.add_fallback("run", "graph", message=MESSAGE, remedy=REMEDY)
            return shared

        return (refuses,) if self._watched else ()


def _overlaps_itself(tensor: torch.Tensor) -> bool:
    """Whether elements may share memory: a step is no longer than all that shorter steps reach."""
    reach = 0
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size > 1:
            if stride <= reach:
                return bool(tensor.numel())
            reach += (size - 1) * stride
    return False


def _span(tensor: torch.Tensor) -> tuple[int, int]:
    """The first byte of a tensor's elements, and the one behind the last."""
    start = tensor.data_ptr()
    if not tensor.numel():
        return start, start
    steps = zip(tensor.shape, tensor.stride(), strict=True)
    last = sum((size - 1) * stride for size, stride in steps)
    return start, start + (last + 1) * tensor.element_size()
