"""``eager``: the captured graph run by torch itself, the yardstick for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends.base import Support
from dynamo_ext.records import Availability

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import GraphModule, Node

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec


class EagerBackend:
    """Capture without compilation: shows what Dynamo sees, and what capture alone costs."""

    name = "eager"
    summary = "The captured graph, run by PyTorch operation by operation"
    extra = ""
    whole_graph = True
    options: Sequence[OptionSpec] = ()

    def probe(self) -> Availability:
        """Always there."""
        import torch

        device = "cuda:0" if torch.cuda.is_available() else "cpu"
        return Availability(available=True, version=torch.__version__, device=device)

    def supports(self, node: Node) -> Support:  # noqa: ARG002
        """Everything."""
        return Support(supported=True)

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Return the graph's own ``forward``."""
        return graph.forward


BACKEND = EagerBackend()
