"""``eager``: the captured graph run by torch itself, the reference for all others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends.base import WholeGraphBackend, in_torch

if TYPE_CHECKING:
    from collections.abc import Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import CompiledFn, Options, OptionSpec
    from dynamo_ext.records.common import Availability


class EagerBackend(WholeGraphBackend):
    """Capture without compilation: shows what Dynamo sees, and what capture alone costs."""

    name = "eager"
    summary = "The captured graph, run by PyTorch operation by operation"
    options: Sequence[OptionSpec] = ()

    def probe(self) -> Availability:
        """Every torch has it."""
        return in_torch()

    def lower(
        self,
        graph: GraphModule,
        example_inputs: Sequence[torch.Tensor],  # noqa: ARG002
        options: Options,  # noqa: ARG002
    ) -> CompiledFn:
        """Return the graph's own ``forward``."""
        return graph.forward


BACKEND = EagerBackend()
