"""Negative indices, which ONNX Runtime counts from the end where torch raises an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.backends.support.single_op import operator_name

if TYPE_CHECKING:
    from torch.fx import GraphModule

_PLACES = {
    "aten::embedding": 1,
    "aten::gather": 2,
    "aten::index_select": 2,
    "aten::scatter": 2,
    "aten::scatter_add": 2,
    "aten::scatter_reduce": 2,
}
"""Operators that refuse negative indices, and where these stand; ``index`` takes them."""


def without_sign(graph: GraphModule) -> GraphModule:
    """A copy of a graph in which a negative index is out of range at the other end.

    ONNX Runtime then raises, and eager, which runs what fails, raises its own error.
    """
    import torch

    graph = duplicate(graph)
    for node in list(graph.graph.nodes):
        place = _PLACES.get(operator_name(node.target).partition(".")[0])
        index: Any = None if place is None else node.args[place]
        if index is None or index.op == "get_attr":
            continue
        value = index.meta["val"]
        with graph.graph.inserting_before(node):
            masked = graph.graph.call_function(
                torch.ops.aten.bitwise_and.Scalar, (index, torch.iinfo(value.dtype).max)
            )
        masked.meta = {"val": value}
        node.update_arg(place, masked)
    graph.recompile()
    return graph
