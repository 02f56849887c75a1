"""``onnxrt``: ONNX Runtime on partitions of the functional ATen graph.

Operators become ONNX through torch.onnx's own table; sessions read and write torch's memory by
DLPack, so nothing is copied on the way in or out.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    onnx_convert,
    onnx_indices,
    onnx_limits,
    onnx_recurrent,
    onnx_session,
    torch_private,
)
from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.base import PARTITION_OPTIONS, THREADS, OptionSpec, Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options

_PACKAGES = ("onnxruntime", "onnxscript", "onnx_ir")
_INSTALL = 'pip install "dynamo-ext[onnxrt]"'


class LoweringError(RuntimeError):
    """The exporter or ONNX Runtime refused a partition; the message is theirs, in one line."""


class OnnxRuntimeBackend:
    """Partitions in ONNX Runtime, on the CPU or on CUDA where its provider loads."""

    name = "onnxrt"
    summary = "ONNX Runtime, through torch.onnx's operator table"
    extra = "onnxrt"
    whole_graph = False
    dynamic_shapes = True
    options: Sequence[OptionSpec] = (
        *PARTITION_OPTIONS,
        THREADS,
        OptionSpec(
            "optimization",
            "all",
            "how far ONNX Runtime rewrites the graph",
            ("none", "basic", "extended", "all"),
        ),
    )

    def __init__(self) -> None:
        self._answers = Answers(onnx_limits.objection, _attempt, onnx_session.complaint)

    def probe(self) -> Availability:
        """Which packages are missing, or the version and the device."""
        missing = [p for p in _PACKAGES if importlib.util.find_spec(p) is None]
        if missing:
            reason = f"{' and '.join(missing)} cannot be imported."
            return Availability(available=False, reason=reason, remedy=_INSTALL)
        import onnxruntime

        device = "cuda:0" if onnx_session.has_cuda() else "cpu"
        return Availability(available=True, version=onnxruntime.__version__, device=device)

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """Keep whole what the exporter knows whole; cut up more where it knows the pieces."""
        return onnx_convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation and load it: the surest answer, kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Translate, fold, load; see ``onnx_session.Session`` for the call."""
        try:
            with torch_private.quiet_exporter():
                model = onnx_convert.translate(onnx_indices.without_sign(graph))
                onnx_recurrent.say_what_is_not_finite(model)
            return onnx_session.Session(model, example_inputs, options).run
        except Exception as error:
            raise LoweringError(onnx_session.complaint(error)) from error


def _attempt(node: Node) -> str:
    with torch_private.outside_modes(), torch_private.quiet_exporter():
        model = onnx_convert.single(node)
        onnx_session.load(model, {}, trial=True)
    return ""


BACKEND = OnnxRuntimeBackend()
