"""``openvino``: OpenVINO's CPU plugin on partitions of the functional ATen graph.

Operators become OpenVINO's through its own FX frontend; requests read and write torch's memory,
so nothing is copied on the way in or out. What the frontend gets wrong is found by trying.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import PARTITION_OPTIONS, THREADS, Backend, LoweringError, Support
from dynamo_ext.backends.engines.openvino import convert, limits, session
from dynamo_ext.backends.support import trial
from dynamo_ext.backends.support.support_cache import Answers
from dynamo_ext.records.common import Availability
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec


class OpenVinoBackend(Backend):
    """Partitions in OpenVINO on the CPU, one engine for each shape."""

    name = "openvino"
    summary = "OpenVINO on the CPU, through its PyTorch FX frontend"
    extra = "openvino"
    packages = ("openvino",)
    races = True
    options: Sequence[OptionSpec] = (*PARTITION_OPTIONS, THREADS)

    def __init__(self) -> None:
        self._answers = Answers(
            limits.unsupported_reason,
            _attempt,
            convert.error_summary,
            engine=self.name,
            packages=self.packages,
        )

    def probe(self) -> Availability:
        """Its version and whether it has a CPU plugin."""
        version = session.version()
        if "CPU" not in session.devices():
            reason = f"OpenVINO {version} finds no CPU plugin."
            return Availability(
                available=False, version=version, reason=reason, remedy="Reinstall openvino."
            )
        return Availability(available=True, version=version, device="cpu")

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what OpenVINO fuses; decompose more of what it does not know."""
        return convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation, run it, compare it with eager; kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Convert and compile; see ``session.Session`` for the call."""
        del example_inputs
        try:
            with convert.quiet():
                return session.Session(graph, options).run
        except Exception as error:
            raise LoweringError(convert.error_summary(error)) from error


def _attempt(node: Node) -> str:
    with dispatch.outside_modes(), convert.quiet():
        return trial.disagreement(node, _lowered, "OpenVINO", strict=True)


def _lowered(graph: GraphModule) -> CompiledFn:
    return session.Session(graph, {}).run


BACKEND = OpenVinoBackend()
