"""Negative indices, which ONNX Runtime counts from the end where torch raises an error."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.backends.support.single_op import operator_name

if TYPE_CHECKING:
    from torch.fx import GraphModule, Node

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
    """The graph, or a copy in which a negative index is out of range at the other end.

    ONNX Runtime then raises, and eager, which runs what fails, raises its own error.
    """
    import torch

    if all(_place(node) is None for node in graph.graph.nodes):
        return graph
    result = duplicate(graph)
    made: dict[Node, Node] = {}
    for node in list(result.graph.nodes):
        place = _place(node)
        index: Any = None if place is None else node.args[place]
        if index is None or index.op == "get_attr":
            continue
        if index not in made:
            value = index.meta["val"]
            with result.graph.inserting_before(node):
                made[index] = result.graph.call_function(
                    torch.ops.aten.bitwise_and.Scalar, (index, torch.iinfo(value.dtype).max)
                )
            made[index].meta = {"val": value}
        node.update_arg(place, made[index])
    result.recompile()
    return result


def _place(node: Node) -> int | None:
    return _PLACES.get(operator_name(node.target).partition(".")[0])
