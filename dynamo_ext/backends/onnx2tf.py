"""``onnx2tf``: ONNX to TensorFlow, compiled by XLA (``jit_compile=True``).

Partitions become ONNX as for ``onnxrt``, and a table of ours makes TensorFlow of each ONNX
operation. The onnx2tf package, after which the road is named, is not used: it needs Python 3.12
or an old TensorFlow, writes a SavedModel or TFLite file by way of files on disk, turns layouts
around, and took 170 s for ResNet-18 where this takes seconds.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import (
    forks,
    onnx_convert,
    onnx_limits,
    tf_session,
    torch_private,
    trial,
)
from dynamo_ext.backends.answers import Answers
from dynamo_ext.backends.base import PARTITION_OPTIONS, Support
from dynamo_ext.backends.single_operation import operator_name
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec

_PACKAGES = ("tensorflow", "onnxscript", "onnx_ir")
_DTYPES = frozenset(
    "float16 bfloat16 float32 float64 int8 int16 int32 int64 uint8 bool".split()  # noqa: SIM905
)
_INSTALL = 'pip install "dynamo-ext[onnx2tf]"'


class LoweringError(RuntimeError):
    """The exporter or TensorFlow refused a partition; the message is theirs, in one line."""


class OnnxToTensorFlowBackend:
    """Partitions in TensorFlow on the CPU, one XLA program for each shape."""

    name = "onnx2tf"
    summary = "ONNX to TensorFlow, compiled by XLA"
    extra = "onnx2tf"
    whole_graph = False
    dynamic_shapes = False
    forkless = "TensorFlow"
    options: Sequence[OptionSpec] = PARTITION_OPTIONS

    def __init__(self) -> None:
        self._answers = Answers(_objection, _attempt, _complaint)

    def probe(self) -> Availability:
        """Which packages are missing, or TensorFlow's version, without importing it."""
        missing = [p for p in _PACKAGES if importlib.util.find_spec(p) is None]
        if missing:
            reason = f"{' and '.join(missing)} cannot be imported."
            return Availability(available=False, reason=reason, remedy=_INSTALL)
        return Availability(available=True, version=_version(), device="cpu")

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """As for ONNX Runtime: keep whole what the exporter knows whole."""
        forks.begin(self.forkless)
        return onnx_convert.decompositions(table, training=training)

    def supports(self, node: Node) -> Support:
        """Convert the one operation, run it, compare it with eager; kept for its likes."""
        return self._answers(node)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Translate, trace, compile; see ``tf_session.Session`` for the call."""
        del example_inputs, options
        try:
            with torch_private.quiet_exporter():
                return _lower(graph)
        except Exception as error:
            raise LoweringError(_complaint(error)) from error


def _version() -> str:
    for name in ("tensorflow-cpu", "tensorflow"):
        try:
            return importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def _objection(node: Node) -> str:
    """Why a node cannot be given to TensorFlow, as far as shows without trying; or nothing.

    What ``onnx_limits`` says of ONNX Runtime's own kernels does not hold here, but what it says
    of the conversion does.
    """
    import torch

    for source in (node, *node.all_input_nodes):
        value = source.meta.get("val")
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.layout is not torch.strided or tensor.is_quantized:
                return "TensorFlow takes dense tensors only."
            if tensor.device.type != "cpu":
                return f"This TensorFlow backend does not run on {tensor.device.type} devices."
            dtype = str(tensor.dtype).removeprefix("torch.")
            if dtype not in _DTYPES:
                return f"No {dtype} tensors go to TensorFlow by way of ONNX."
    value = node.meta.get("val")
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    if floating and operator_name(node.target).startswith("aten::remainder"):
        return "torch.onnx's remainder is not exact where the quotient is large."
    if torch_private.onnx_function(node) is None:
        return "torch.onnx has no conversion for it."
    return onnx_limits.truncated(node)


def _lower(graph: GraphModule) -> CompiledFn:
    model = onnx_convert.translate(tf_session.prepare(graph))
    inputs = [node.meta["val"] for node in graph.graph.nodes if node.op == "placeholder"]
    outputs: Any = graph.graph.output_node().args[0]
    return tf_session.session(model, inputs, [node.meta["val"] for node in outputs]).run


def _complaint(error: BaseException) -> str:
    """TensorFlow's or the exporter's message in one line, without its markers."""
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in str(cause).splitlines()]
    telling = [line for line in lines if line and not line.startswith(("{{", "Stack trace", "in "))]
    return (telling or [type(cause).__name__])[0][:300]


def _attempt(node: Node) -> str:
    with torch_private.outside_modes(), torch_private.quiet_exporter():
        return trial.disagreement(node, _lower, "TensorFlow")


BACKEND = OnnxToTensorFlowBackend()
