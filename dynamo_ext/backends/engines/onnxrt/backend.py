"""``onnxrt``: ONNX Runtime on partitions of the functional ATen graph.

Operators become ONNX through torch.onnx's own table; sessions read and write torch's memory by
DLPack, so nothing is copied on the way in or out.
"""

from collections.abc import Sequence

from torch.fx import Node

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import PARTITION_OPTIONS, THREADS, Lowered, LoweringRequest, Options
from dynamo_ext.backends.engines.onnx import convert, recurrent, torch_private
from dynamo_ext.backends.engines.onnx.through_onnx import ThroughOnnx
from dynamo_ext.backends.engines.onnxrt import limits, quantize, session
from dynamo_ext.backends.fx_graph import attribute, is_frozen
from dynamo_ext.records.common import FULL, Availability, OptionSpec
from dynamo_ext.torch_private import dispatch


class OnnxRuntimeBackend(ThroughOnnx):
    """Partitions in ONNX Runtime, on the CPU or on CUDA where its provider loads."""

    name = "onnxrt"
    engine = "ONNX Runtime"
    summary = "ONNX Runtime, through torch.onnx's operator table"
    extra = "onnxrt"
    packages = ("onnxruntime", "onnxscript", "onnx_ir")
    races = True
    dynamic_shapes = True
    options: Sequence[OptionSpec] = (*PARTITION_OPTIONS, THREADS, precision.option("int8"))

    def probe(self) -> Availability:
        """The version and the device."""
        import onnxruntime

        device = "cuda:0" if session.has_cuda() else "cpu"
        return Availability(available=True, version=onnxruntime.__version__, device=device)

    unsupported_reason = staticmethod(limits.unsupported_reason)

    def attempt(self, node: Node) -> str:
        """Convert the one operation and load it."""
        with dispatch.outside_modes(), self.quiet():
            if torch_private.onnx_function(node) is None:
                return "torch.onnx has no conversion for it."
            session.load(*session.program(convert.single(node)), {}, trial=True)
        return ""

    def compiled(self, request: LoweringRequest) -> Lowered:
        """Translate, fold, load; see ``session.Session`` for the call."""
        graph, full = request.graph, precision.of(request.options) == FULL
        model = convert.translate(session.without_negative_indices(graph), whole_weights=full)
        recurrent.say_what_is_not_finite(model)
        lowered = None
        if not full:
            kept = quantize.value_names(graph, request.full_precision)
            model, lowered = quantize.quantized(model, request.calibration, kept)
        made, lent = session.program(model)
        engine = session.Session(made, lent, request)
        engine.load()
        # What was computed of weights holds for these alone.
        weights = {str(node.target) for node in graph.graph.nodes if is_frozen(node)}
        saved = made.to_bytes() if full and weights == set(lent) else None
        return Lowered(engine.run, lowered, saved)

    def program_versions(self, options: Options) -> str:
        """Programs in float32 are kept."""
        return self._answers.place() if precision.of(options) == FULL else ""

    def restored(self, request: LoweringRequest, program: bytes) -> Lowered:
        """Load it on the weights of the graph."""
        made = session.Program.from_bytes(program)
        lent = {name: attribute(request.graph, name).contiguous().cpu() for name in made.lent}
        engine = session.Session(made, lent, request)
        return Lowered(engine.run, load=engine.load)


BACKEND = OnnxRuntimeBackend()
