"""``openvino``: OpenVINO's CPU plugin on partitions of the functional ATen graph.

Operators become OpenVINO's through its own FX frontend; requests read and write torch's memory,
so nothing is copied on the way in or out. What the frontend gets wrong is found by trying.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    openvino_convert,
    openvino_limits,
    openvino_session,
    torch_private,
    trial,
)
from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.base import PARTITION_OPTIONS, THREADS, Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec

_INSTALL = 'pip install "dynamo-ext[openvino]"'


class LoweringError(RuntimeError):
    """OpenVINO refused a partition; the message is its own, in one line."""


class OpenVinoBackend:
    """Partitions in OpenVINO on the CPU, one engine for each shape."""

    name = "openvino"
    summary = "OpenVINO on the CPU, through its PyTorch FX frontend"
    extra = "openvino"
    whole_graph = False
    dynamic_shapes = False
    options: Sequence[OptionSpec] = (*PARTITION_OPTIONS, THREADS)

    def __init__(self) -> None:
        self._answers = Answers(openvino_limits.objection, _attempt, openvino_convert.complaint)

    def probe(self) -> Availability:
        """Whether the package is missing, or its version and the device."""
        if importlib.util.find_spec("openvino") is None:
            reason = "openvino cannot be imported."
            return Availability(available=False, reason=reason, remedy=_INSTALL)
        version = openvino_session.version()
        if "CPU" not in openvino_session.devices():
            reason = f"OpenVINO {version} finds no CPU plugin."
            return Availability(
                available=False, version=version, reason=reason, remedy="Reinstall openvino."
            )
        return Availability(available=True, version=version, device="cpu")

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what OpenVINO fuses; cut up more of what it does not know."""
        return openvino_convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation, run it, compare it with eager; kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Convert and compile; see ``openvino_session.Session`` for the call."""
        del example_inputs
        try:
            with openvino_convert.quiet():
                return openvino_session.Session(graph, options).run
        except Exception as error:
            raise LoweringError(openvino_convert.complaint(error)) from error


def _attempt(node: Node) -> str:
    with torch_private.outside_modes(), openvino_convert.quiet():
        return trial.disagreement(node, _lowered, "OpenVINO", strict=True)


def _lowered(graph: GraphModule) -> CompiledFn:
    return openvino_session.Session(graph, {}).run


BACKEND = OpenVinoBackend()
