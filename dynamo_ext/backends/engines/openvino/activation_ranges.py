"""Activations in eight bits, in ranges that calls of a graph had.

The frontend makes OpenVINO's FakeQuantize of torch's, and the CPU plugin computes a convolution
behind one in integers.
"""

import operator
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node

_LEVELS = 255


def rounded(
    graph: GraphModule, wanted: Collection[Node], calls: Sequence[Sequence[Any]]
) -> Mapping[Node, Node]:
    """Put a rounding behind some of a graph's nodes; what rounds, by node.

    ``calls`` are inputs of the graph. What was not finite in one of them, or always zero, is left
    as it is.
    """
    ranges = _Ranges(graph, wanted)
    with torch.no_grad():
        for inputs in calls:
            ranges.run(*inputs)
    made: dict[Node, Node] = {}
    for node, (low, high) in ranges.found.items():
        scale = (high - low) / _LEVELS
        if not torch.finfo(torch.float32).tiny < scale < float("inf"):
            continue
        nodes, settings = graph.graph, (scale, round(-low / scale), 0, _LEVELS)
        with nodes.inserting_after(node):
            both = nodes.call_function(
                torch.ops.aten.fake_quantize_per_tensor_affine_cachemask.default, (node, *settings)
            )
        with nodes.inserting_after(both):
            made[node] = nodes.call_function(operator.getitem, (both, 0))
    return made


class _Ranges(Interpreter):
    """Runs a graph, and keeps the lowest and the highest value of some nodes; zero is between."""

    def __init__(self, graph: GraphModule, wanted: Collection[Node]) -> None:
        super().__init__(graph)
        self.found: dict[Node, tuple[float, float]] = {}
        self._wanted = wanted

    def run_node(self, n: Node) -> Any:
        """The node's result."""
        result = super().run_node(n)
        if n in self._wanted:
            low, high = self.found.get(n, (0.0, 0.0))
            # NaN stays, other than in min().
            found = torch.cat([result.flatten(), result.new_tensor([low, high])])
            self.found[n] = float(found.amin()), float(found.amax())
        return result
