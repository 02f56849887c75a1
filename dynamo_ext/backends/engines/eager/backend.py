"""Graphs run by torch itself: what capture and AOTAutograd cost.

``eager`` runs the captured graph, the reference for all others; ``aot_eager`` what AOTAutograd
makes of it.
"""

from collections.abc import Sequence

from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import (
    DIVIDE,
    VERIFY_GRAPH,
    CompiledFn,
    Inputs,
    Options,
    WholeGraphBackend,
)
from dynamo_ext.backends.torch_private import aot
from dynamo_ext.records.common import OptionSpec


class EagerBackend(WholeGraphBackend):
    """Capture without compilation: shows what Dynamo sees, and what capture alone costs."""

    name = "eager"
    summary = "The captured graph, run by PyTorch operation by operation"
    options: Sequence[OptionSpec] = (*precision.BY_AUTOCAST, VERIFY_GRAPH)

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Return the graph's own ``forward``."""
        del example_inputs, options
        return graph.forward


class AotEagerBackend(WholeGraphBackend):
    """Takes the captured graph whole, through torch's backend of the same name."""

    name = "aot_eager"
    summary = "The functional forward and backward graphs, run by PyTorch operation by operation"
    through_aot = True
    options: Sequence[OptionSpec] = (*precision.BY_AUTOCAST, VERIFY_GRAPH, DIVIDE)

    def lower(self, graph: GraphModule, example_inputs: Inputs, options: Options) -> CompiledFn:
        """Run AOTAutograd and compile nothing."""
        del options
        return aot.compile_by_aot("aot_eager", graph, example_inputs)


EAGER = EagerBackend()
AOT_EAGER = AotEagerBackend()
