"""``onnxrt``: ONNX Runtime on partitions of the functional ATen graph.

Operators become ONNX through torch.onnx's own table; sessions read and write torch's memory by
DLPack, so nothing is copied on the way in or out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import PARTITION_OPTIONS, THREADS
from dynamo_ext.backends.engines.onnx import convert, recurrent, torch_private
from dynamo_ext.backends.engines.onnxrt import limits, session
from dynamo_ext.backends.support.tried_backend import TriedBackend
from dynamo_ext.records.common import Availability
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec


class OnnxRuntimeBackend(TriedBackend):
    """Partitions in ONNX Runtime, on the CPU or on CUDA where its provider loads."""

    name = "onnxrt"
    engine = "ONNX Runtime"
    summary = "ONNX Runtime, through torch.onnx's operator table"
    extra = "onnxrt"
    packages = ("onnxruntime", "onnxscript", "onnx_ir")
    races = True
    dynamic_shapes = True
    options: Sequence[OptionSpec] = (*PARTITION_OPTIONS, THREADS)

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

    def unsupported_reason(self, node: Node) -> str:
        """See ``limits``."""
        return limits.unsupported_reason(node)

    def attempt(self, node: Node) -> str:
        """Convert the one operation and load it."""
        with dispatch.outside_modes(), self.quiet():
            session.load(convert.single(node), {}, trial=True)
        return ""

    def compiled(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Translate, fold, load; see ``session.Session`` for the call."""
        model = convert.translate(session.without_negative_indices(graph))
        recurrent.say_what_is_not_finite(model)
        return session.Session(model, example_inputs, options).run

    def quiet(self) -> AbstractContextManager[None]:
        """The exporter prints, logs and warns."""
        return torch_private.quiet_exporter()

    def error_summary(self, error: BaseException) -> str:
        """The exporter's message, or ONNX Runtime's."""
        return convert.error_summary(error)


BACKEND = OnnxRuntimeBackend()
