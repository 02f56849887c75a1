"""TorchScript on partitions of the functional ATen graph.

``ts`` as it is, ``ofi`` optimised for inference.
"""

from collections.abc import Sequence

from torch.fx import Node

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    PARTITION_OPTIONS,
    Backend,
    Lowered,
    LoweringRequest,
    StayEager,
    Support,
    in_torch,
)
from dynamo_ext.backends.engines.torchscript.writer import Writer, written
from dynamo_ext.backends.torch_private.decompositions import Decompositions
from dynamo_ext.errors import one_line
from dynamo_ext.interruptions import failures
from dynamo_ext.records.common import Availability, OptionSpec


class TorchScriptBackend(Backend):
    """Scripts partitions and folds frozen weights into them; inference and training."""

    name = "ts"
    summary = "TorchScript: the graph in torch's own interpreter, weights folded in"
    dynamic_shapes = True
    lowered_by_autocast = True
    options: Sequence[OptionSpec] = (*PARTITION_OPTIONS, precision.option("bf16", "fp16"))

    def probe(self) -> Availability:
        """Every torch has it."""
        return in_torch()

    def decompositions(self, table: Decompositions, *, training: bool) -> Decompositions:
        """Keep what eager has a kernel for: TorchScript calls the very same one."""
        if training:
            return {}
        return {op: cut for op, cut in table.items() if "_scaled_dot_product" not in str(op)}

    def supports(self, node: Node) -> Support:
        """Whether TorchScript resolves the node to the very overload that eager would call."""
        writer = Writer()
        try:
            for source in node.all_input_nodes:
                writer.placeholder(source)
            writer.operation(node)
        except failures() as error:
            return Support(supported=False, reason=one_line(error))
        return Support(supported=True)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Write the graph, fold its constants, hand it to the interpreter."""
        return Lowered(written(request.graph).jit.function())


class InferenceBackend(TorchScriptBackend):
    """TorchScript after ``optimize_for_inference``: folded batch norms, oneDNN layouts."""

    name = "ofi"
    summary = "TorchScript optimised for inference: folded batch norms, oneDNN layouts"
    # Casts of weights are made outside of the graph, where nothing is folded into them.
    options = PARTITION_OPTIONS

    def decompositions(self, table: Decompositions, *, training: bool) -> Decompositions:
        """As ``ts``; a graph that will be differentiated is left to eager."""
        if training:
            reason = "optimize_for_inference takes no graph that will be differentiated."
            remedy = "Call it under torch.no_grad(), or train on the ts backend."
            raise StayEager(reason, remedy)
        return super().decompositions(table, training=training)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """As ``ts``, with constants folded, and then the passes for inference."""
        writer = written(request.graph, fold=True)
        writer.jit.optimize_for_inference()
        return Lowered(writer.jit.function())


TS = TorchScriptBackend()
OFI = InferenceBackend()
