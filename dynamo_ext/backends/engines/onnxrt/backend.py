"""``onnxrt``: ONNX Runtime on partitions of the functional ATen graph.

Operators become ONNX through torch.onnx's own table; sessions read and write torch's memory by
DLPack, so nothing is copied on the way in or out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import (
    PARTITION_OPTIONS,
    THREADS,
    Backend,
    LoweringError,
    OptionSpec,
    Support,
)
from dynamo_ext.backends.engines.onnx import convert, recurrent, torch_private
from dynamo_ext.backends.engines.onnxrt import limits, negative_indices, session
from dynamo_ext.backends.support.support_cache import Answers
from dynamo_ext.records.common import Availability
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options


class OnnxRuntimeBackend(Backend):
    """Partitions in ONNX Runtime, on the CPU or on CUDA where its provider loads."""

    name = "onnxrt"
    summary = "ONNX Runtime, through torch.onnx's operator table"
    extra = "onnxrt"
    packages = ("onnxruntime", "onnxscript", "onnx_ir")
    races = True
    dynamic_shapes = True
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
        """The version and the device."""
        import onnxruntime

        device = "cuda:0" if session.has_cuda() else "cpu"
        return Availability(available=True, version=onnxruntime.__version__, device=device)

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what the exporter knows whole; decompose more where it knows the parts."""
        return convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation and load it: the surest answer, kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Translate, fold, load; see ``session.Session`` for the call."""
        try:
            with torch_private.quiet_exporter():
                model = convert.translate(negative_indices.without_sign(graph))
                recurrent.say_what_is_not_finite(model)
            return session.Session(model, example_inputs, options).run
        except Exception as error:
            raise LoweringError(convert.error_summary(error)) from error


def _attempt(node: Node) -> str:
    with dispatch.outside_modes(), torch_private.quiet_exporter():
        model = convert.single(node)
        session.load(model, {}, trial=True)
    return ""


BACKEND = OnnxRuntimeBackend()
