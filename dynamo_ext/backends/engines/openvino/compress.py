"""Weights of products in eight bits, written so that OpenVINO's CPU plugin keeps them so.

That takes integers, converted and multiplied by a scale, for compressed weights, and at each call
rounds what they are multiplied by, where the processor has the instructions (``GROUP``). NNCF
would write the same pattern. It finds no weights behind a transposition, as all linear layers'
are here, its scales are float16, and its telemetry would have to be kept off.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends import precision
from dynamo_ext.backends.fx_graph import attribute, is_view
from dynamo_ext.backends.support.single_op import operator_name

GROUP = 128
"""Activations that share a scale, along a row: fewer are more exact and slower."""

_WEIGHTS = {"aten::mm": 1, "aten::addmm": 2}
"""Products, and where their weights stand."""

_MOST = 127


def compress(graph: GraphModule) -> None:
    """Round the constant weights of a partition's products, with a scale for each column.

    Weights that are not finite stay as they are. Raises ``StayEager`` where no product has
    constant weights.
    """
    rounded: dict[Node, Node] = {}
    for node in list(graph.graph.nodes):
        place = _WEIGHTS.get(operator_name(node.target))
        if place is None:
            continue
        operand = node.args[place]
        weight = _constant(graph, operand)
        if weight is None or weight.dtype is not torch.float32 or not weight.isfinite().all():
            continue
        if operand not in rounded:
            rounded[operand] = _rounded(graph, operand, weight)
        node.update_arg(place, rounded[operand])
    if not rounded:
        raise precision.no_constant_weights(engine="OpenVINO")
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _constant(graph: GraphModule, node: Any) -> Any:
    """The value of a node that is a constant, or a view of one; else ``None``."""
    if node.op == "get_attr":
        return attribute(graph, node.target)
    source = _constant(graph, node.args[0]) if is_view(node) else None
    return None if source is None else node.target(source, *node.args[1:], **node.kwargs)


def _rounded(graph: GraphModule, operand: Node, weight: torch.Tensor) -> Node:
    """What computes nearly ``weight`` from integers, in front of the node that gives it."""
    aten = torch.ops.aten
    rows = weight.T
    scales = (rows.abs().amax(1, keepdim=True) / _MOST).clamp_min(torch.finfo(torch.float32).tiny)
    graph.register_buffer(f"{operand.name}_int8", (rows / scales).round().to(torch.int8))
    graph.register_buffer(f"{operand.name}_scales", scales)
    nodes = graph.graph
    with nodes.inserting_before(operand):
        integers = nodes.get_attr(f"{operand.name}_int8")
        wide = nodes.call_function(
            aten._to_copy.default,  # noqa: SLF001 - an operator
            (integers,),
            {"dtype": torch.float32},
        )
        scaled = nodes.call_function(
            aten.mul.Tensor, (wide, nodes.get_attr(f"{operand.name}_scales"))
        )
        return nodes.call_function(aten.permute.default, (scaled, [1, 0]))
