"""``ofi``: TorchScript, optimised for inference."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.engines.torchscript.backend import TorchScriptBackend, own_outputs
from dynamo_ext.backends.engines.torchscript.writer import written

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import CompiledFn, Options


class InferenceBackend(TorchScriptBackend):
    """TorchScript after ``optimize_for_inference``: folded batch norms, oneDNN layouts."""

    name = "ofi"
    summary = "TorchScript optimised for inference: folded batch norms, oneDNN layouts"

    def decompositions(
        self, table: dict[Any, Callable[..., Any]], *, training: bool
    ) -> dict[Any, Callable[..., Any]]:
        """As ``ts``; a graph that will be differentiated is left to eager."""
        if training:
            reason = "optimize_for_inference takes no graph that will be differentiated."
            remedy = "Call it under torch.no_grad(), or train on the ts backend."
            raise StayEager(reason, remedy)
        return super().decompositions(table, training=training)

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """As ``ts``, with constants folded, and then the passes for inference."""
        writer = written(graph, fold=True)
        writer.jit.optimize_for_inference()
        return own_outputs(graph, writer.jit.function())


BACKEND = InferenceBackend()
