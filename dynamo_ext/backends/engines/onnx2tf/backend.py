"""``onnx2tf``: ONNX to TensorFlow, compiled by XLA (``jit_compile=True``).

Partitions become ONNX as for ``onnxrt``. The onnx2tf package is not used: it goes by way of files,
turns layouts around, and took 170 s for ResNet-18 where this takes seconds.
"""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import Distribution
from typing import Any

from torch.fx import Node

from dynamo_ext.backends.base import Lowered, LoweringRequest
from dynamo_ext.backends.engines.onnx import convert, limits, torch_private
from dynamo_ext.backends.engines.onnx.through_onnx import ThroughOnnx
from dynamo_ext.backends.engines.onnx2tf import session
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.tensor_limits import DTYPES, TensorLimits
from dynamo_ext.records.common import Availability

_LIMITS = TensorLimits("TensorFlow", DTYPES, "No {} tensors go to TensorFlow by way of ONNX.")


class OnnxToTensorFlowBackend(ThroughOnnx):
    """Partitions in TensorFlow on the CPU, one XLA program for each shape."""

    name = "onnx2tf"
    engine = "TensorFlow"
    summary = "ONNX to TensorFlow, compiled by XLA"
    extra = "onnx2tf"
    packages = ("tensorflow", "onnxscript", "onnx_ir")
    fork_unsafe_runtime = "TensorFlow"
    checks_data = True
    cut_up: Sequence[str] = (
        *ThroughOnnx.cut_up,
        # XLA fuses the pieces.
        "native_layer_norm.default",
        "_native_batch_norm_legit.default",
        "_native_batch_norm_legit_no_training.default",
        "hardswish.default",
    )

    def probe(self) -> Availability:
        """TensorFlow's version, without importing it."""
        names = ("tensorflow-cpu", "tensorflow")
        versions = (found.version for name in names for found in Distribution.discover(name=name))
        return Availability(available=True, version=next(versions, ""), device="cpu")

    def unsupported_reason(self, node: Node) -> str:
        """What ONNX's conversion gets wrong; ONNX Runtime's own kernels do not count here."""
        if unfit := _LIMITS.unsupported_reason(node):
            return unfit
        name = operator_name(node.target)
        if name.startswith("aten::remainder") and node.meta["val"].is_floating_point():
            return "torch.onnx's remainder is not exact where the quotient is large."
        if torch_private.onnx_function(node) is None:
            return "torch.onnx has no conversion for it."
        return limits.truncated(node)

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Translate, trace, compile; see ``session.compiled`` for the call."""
        graph = request.graph
        model = convert.translate(graph)
        outputs: Any = graph.graph.output_node().args[0]
        results = [node.meta["val"] for node in outputs]
        session.tensorflow()
        # TensorFlow notes the code of the whole stack: that of a thread is short.
        with ThreadPoolExecutor(1) as thread:
            return Lowered(thread.submit(session.compiled, model, request.inputs, results).result())


BACKEND = OnnxToTensorFlowBackend()
