"""``aot_eager``: the graph as AOTAutograd makes it, run by torch: what capture and AOT cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends import torch_private
from dynamo_ext.backends.base import VERIFY_GRAPH, Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec


class AotEagerBackend:
    """Takes the captured graph whole, through torch's backend of the same name."""

    name = "aot_eager"
    summary = "The functional forward and backward graphs, run by PyTorch operation by operation"
    extra = ""
    whole_graph = True
    options: Sequence[OptionSpec] = (VERIFY_GRAPH,)

    def probe(self) -> Availability:
        """Every torch has it."""
        import torch

        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        return Availability(available=True, version=torch.__version__, device=device)

    def supports(self, node: Node) -> Support:  # noqa: ARG002
        """Everything."""
        return Support(supported=True)

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Run AOTAutograd and compile nothing."""
        compiled: CompiledFn = torch_private.bare(
            torch_private.torch_backend("aot_eager")(graph, example_inputs)
        )
        return compiled


BACKEND = AotEagerBackend()
