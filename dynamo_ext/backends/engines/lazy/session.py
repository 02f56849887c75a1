"""A partition on Lazy Tensor Core's device."""

import contextlib
import itertools
import threading
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.engines.lazy import torch_private
from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.torch_private import fx_nodes

_STEP = threading.Lock()
"""A step computes whatever is pending anywhere, so that two at once would mix."""

REWRITTEN = ("aten::_native_batch_norm_legit_no_training",)
"""Operators that ``prepare`` writes as others."""

_numbers = itertools.count(1)

_SETTLING = 3
"""Steps after a failed one, of which the first raises its error again."""


def prepare(graph: GraphModule) -> GraphModule:
    """A copy of a partition in operators that Lazy Tensor Core has itself."""
    aten = torch.ops.aten
    graph = duplicate(graph)
    for node in graph.graph.nodes:
        if node.target is aten._native_batch_norm_legit_no_training.default:  # noqa: SLF001 - an operator
            node.target = aten.native_batch_norm.default
            node.args = (*node.args[:5], False, *node.args[5:])
    return graph


class Session:
    """A partition that is traced, and computed, at each call: ``run(*inputs)`` gives a list.

    Inputs are copied to the lazy device and results from it. Constants are copied there once.
    """

    def __init__(self, graph: GraphModule) -> None:
        torch_private.lazy_start()
        self._number = next(_numbers)
        self._graph = prepare(graph)
        self._device = device = torch.device("lazy")
        with _STEP:
            for node in self._graph.graph.nodes:
                if node.op == "get_attr":
                    constant = getattr(self._graph, str(node.target))
                    setattr(self._graph, str(node.target), constant.detach().to(device))
                elif node.op == "call_function" and (
                    "device" in node.kwargs or _creates(node.target)
                ):
                    node.kwargs = {**node.kwargs, "device": device}
            torch_private.lazy_step()
        self._graph.recompile()

    def run(self, *inputs: Any) -> list[Any]:
        """Trace and compute the partition."""
        with torch.no_grad(), _STEP:
            try:
                return self._values(inputs)
            except BaseException:
                # Let the error, which the next step raises again, be over.
                for _ in range(_SETTLING):
                    with contextlib.suppress(Exception):
                        torch_private.lazy_step()
                        break
                raise

    def _values(self, inputs: Sequence[Any]) -> list[Any]:
        there = [
            value.detach().to(self._device) if isinstance(value, torch.Tensor) else value
            for value in inputs
        ]
        results = self._graph(*there)
        # A step computes live inputs too, which were not asked for.
        del there
        # It finds what it has compiled by a hash that does not know which input goes where:
        # (x - y) / y would become (x - y) / x. A shape that no other session has tells them apart.
        mark = torch.zeros((0, self._number), device=self._device)
        torch_private.lazy_step()
        del mark
        return [value.to("cpu") for value in results]


def _creates(target: Any) -> bool:
    """Whether an operator takes a device and no tensor, so that it would run on the CPU."""
    arguments = target._schema.arguments if fx_nodes.is_overload(target) else ()  # noqa: SLF001 - FX itself reads it so
    tensors = any("Tensor" in str(argument.type) for argument in arguments)
    return not tensors and any(argument.name == "device" for argument in arguments)
