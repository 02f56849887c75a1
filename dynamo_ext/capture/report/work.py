"""What some code, or a captured graph, asks of the machine."""

import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule
from torch.utils._pytree import tree_leaves

from dynamo_ext.backends import effects
from dynamo_ext.capture.torch_private import frame_eval
from dynamo_ext.interruptions import pass_on
from dynamo_ext.records.machine import Work
from dynamo_ext.torch_private.dispatch import (
    fake_mode,
    is_plain_tensor,
    number,
    outside_modes,
    without_values,
)
from dynamo_ext.torch_private.entered_modes import forward_of
from dynamo_ext.torch_private.work import count_work, precision_of


def work_of(call: Callable[[], Any], results: Callable[[], Mapping[str, Any]]) -> Work | None:
    """Run ``call`` and count; ``results`` are then what it gave. ``None`` where it raises."""
    try:
        return _counted(call, lambda: results().values())
    except Exception as error:  # noqa: BLE001 - not every code runs under such a counter
        pass_on(error)
        return None


def _counted(call: Callable[[], Any], results: Callable[[], Iterable[Any]]) -> Work:
    counted = count_work(call)
    made = sum(each.nbytes for each in results() if isinstance(each, torch.Tensor))
    precision = precision_of(counted.dtype)
    return Work(counted.operations, counted.size + made, counted.calls, precision, counted.weights)


class GraphWork:
    """What a call of a captured graph asks of the machine, counted once, when it is asked for.

    It runs on fake tensors of the sizes that it was captured with, and calls no function of the
    user's. ``device`` is where its inputs are.
    """

    def __init__(self, graph: GraphModule, inputs: Sequence[Any]) -> None:
        # What holds this would otherwise hold the model's weights.
        self._graph = weakref.ref(graph)
        self._inputs = [_described(each) for each in inputs]
        places = [each.device for each in inputs if isinstance(each, torch.Tensor)]
        self.device = next((each for each in places if each.type != "cpu"), torch.device("cpu"))
        kind = self.device.type
        # Torch raises for a device that autocast does not know, such as "meta".
        on = torch.amp.is_autocast_available(kind) and torch.is_autocast_enabled(kind)
        self._autocast = torch.get_autocast_dtype(kind) if on else None
        self._counted: list[Work | None] = []

    def count(self) -> Work | None:
        """``None`` where it does not run without data, or is gone."""
        graph = self._graph()
        if graph is not None and not self._counted:
            plain = all(map(effects.is_torchs_own, graph.graph.nodes))
            known = plain and not effects.holds_transforms(graph)
            # A report may be asked for where what is called is captured.
            counted = frame_eval.call_under(None, self._run, graph) if known else None
            self._counted.append(counted)
        return self._counted[0] if self._counted else None

    def _run(self, graph: GraphModule) -> Work | None:
        kind, dtype = self.device.type, self._autocast
        mode, found = fake_mode(), list[Any]()
        # Not graph(...), which prints its generated code on an error.
        run = forward_of(graph)
        try:
            with outside_modes(functions_too=True), torch.no_grad():
                given = [make(mode) for make in self._inputs]
                with mode, torch.autocast(kind, dtype, enabled=dtype is not None):
                    return _counted(lambda: found.extend(tree_leaves(run(*given))), lambda: found)
        except Exception as error:  # noqa: BLE001 - not every graph runs without values
            pass_on(error)
            return None


def _described(value: Any) -> Callable[[Any], Any]:
    """What makes an input like this one: a tensor of the same kind without its values."""
    if is_plain_tensor(value):
        return without_values(value)
    known = number(value)
    given = known if isinstance(known, (int, float)) else None
    return lambda _: given
