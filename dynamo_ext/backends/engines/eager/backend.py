"""Graphs run by torch itself: what capture and AOTAutograd cost.

``eager`` runs the captured graph, the reference for all others; ``aot_eager`` what AOTAutograd
makes of it.
"""

from collections.abc import Sequence

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    DIVIDE,
    VERIFY_GRAPH,
    Lowered,
    LoweringRequest,
    WholeGraphBackend,
)
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.records.common import OptionSpec


class EagerBackend(WholeGraphBackend):
    """Capture without compilation: shows what Dynamo sees, and what capture alone costs."""

    name = "eager"
    summary = "The captured graph, run by PyTorch operation by operation"
    options: Sequence[OptionSpec] = (*precision.BY_AUTOCAST, VERIFY_GRAPH)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Return the graph's own ``forward``."""
        return Lowered(request.graph.forward)


class AotEagerBackend(WholeGraphBackend):
    """Takes the captured graph whole, through torch's backend of the same name."""

    name = "aot_eager"
    summary = "The functional forward and backward graphs, run by PyTorch operation by operation"
    through_aot = True
    options: Sequence[OptionSpec] = (*precision.BY_AUTOCAST, VERIFY_GRAPH, DIVIDE)

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """Run AOTAutograd and compile nothing."""
        return Lowered(aot.compile_by_aot("aot_eager", request.graph, request.inputs))


EAGER = EagerBackend()
AOT_EAGER = AotEagerBackend()
