"""``aot_eager``: the graph as AOTAutograd makes it, run by torch: what capture and AOT cost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends.base import WholeGraphBackend, in_torch
from dynamo_ext.backends.torch_private import aot

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import CompiledFn, Options
    from dynamo_ext.records.common import Availability


class AotEagerBackend(WholeGraphBackend):
    """Takes the captured graph whole, through torch's backend of the same name."""

    name = "aot_eager"
    summary = "The functional forward and backward graphs, run by PyTorch operation by operation"
    through_aot = True

    def probe(self) -> Availability:
        """Every torch has it."""
        return in_torch()

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Run AOTAutograd and compile nothing."""
        return aot.bare(aot.compile_by_aot("aot_eager", graph, example_inputs))


BACKEND = AotEagerBackend()
