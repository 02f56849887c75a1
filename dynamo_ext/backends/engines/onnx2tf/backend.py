"""``onnx2tf``: ONNX to TensorFlow, compiled by XLA (``jit_compile=True``).

Partitions become ONNX as for ``onnxrt``, and a table of ours makes TensorFlow of each ONNX
operation. The onnx2tf package, after which the road is named, is not used: it needs Python 3.12
or an old TensorFlow, writes a SavedModel or TFLite file by way of files on disk, turns layouts
around, and took 170 s for ResNet-18 where this takes seconds.
"""

from __future__ import annotations

import importlib.metadata
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import fork_safety
from dynamo_ext.backends.base import Backend, LoweringError, Support
from dynamo_ext.backends.engines.onnx import convert, torch_private
from dynamo_ext.backends.engines.onnx import limits as limits_private
from dynamo_ext.backends.engines.onnx2tf import session
from dynamo_ext.backends.support import trial
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.support_cache import Answers
from dynamo_ext.backends.support.tensor_limits import DTYPES, TensorLimits
from dynamo_ext.records.common import Availability
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options

_LIMITS = TensorLimits(
    "TensorFlow",
    "This TensorFlow backend does not run on {} devices.",
    DTYPES,
    "No {} tensors go to TensorFlow by way of ONNX.",
)


class OnnxToTensorFlowBackend(Backend):
    """Partitions in TensorFlow on the CPU, one XLA program for each shape."""

    name = "onnx2tf"
    summary = "ONNX to TensorFlow, compiled by XLA"
    extra = "onnx2tf"
    packages = ("tensorflow", "onnxscript", "onnx_ir")
    fork_unsafe_runtime = "TensorFlow"

    def __init__(self) -> None:
        self._answers = Answers(
            _unsupported_reason,
            _attempt,
            convert.error_summary,
            engine=self.name,
            packages=self.packages,
        )

    def probe(self) -> Availability:
        """TensorFlow's version, without importing it."""
        return Availability(available=True, version=_version(), device="cpu")

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """As for ONNX Runtime: keep whole what the exporter knows whole."""
        fork_safety.begin(self.fork_unsafe_runtime)
        return convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation, run it, compare it with eager; kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Translate, trace, compile; see ``session.Session`` for the call."""
        del example_inputs, options
        try:
            with torch_private.quiet_exporter():
                return _lower(graph)
        except Exception as error:
            raise LoweringError(convert.error_summary(error)) from error


def _version() -> str:
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _unsupported_reason(node: Node) -> str:
    """Why a node cannot be given to TensorFlow, as far as shows without trying; or nothing.

    What ``onnx_limits`` says of ONNX Runtime's own kernels does not hold here, but what it says
    of the conversion does.
    """
    import torch

    if unfit := _LIMITS.unsupported_reason(node):
        return unfit
    value = node.meta.get("val")
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    if floating and operator_name(node.target).startswith("aten::remainder"):
        return "torch.onnx's remainder is not exact where the quotient is large."
    if torch_private.onnx_function(node) is None:
        return "torch.onnx has no conversion for it."
    return limits_private.truncated(node)


def _lower(graph: GraphModule) -> CompiledFn:
    model = convert.translate(session.prepare(graph))
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    outputs: Any = graph.graph.output_node().args[0]
    return session.session(model, inputs, [node.meta["val"] for node in outputs]).run


def _attempt(node: Node) -> str:
    with dispatch.outside_modes(), torch_private.quiet_exporter():
        return trial.disagreement(node, _lower, "TensorFlow")


BACKEND = OnnxToTensorFlowBackend()
