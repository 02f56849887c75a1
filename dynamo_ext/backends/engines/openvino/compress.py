"""Weights in eight bits, written so that OpenVINO's CPU plugin keeps them so.

That takes integers, converted and multiplied by a scale, for compressed weights. What a product's
are multiplied by it rounds at each call, where the processor has the instructions (``GROUP``).
NNCF would write the same pattern. It finds no weights behind a transposition, as all linear layers'
are here, its scales are float16, and its telemetry would have to be kept off.
"""

from collections.abc import Collection, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends import precision
from dynamo_ext.backends.engines.openvino import activation_ranges
from dynamo_ext.backends.fx_graph import attribute, is_view
from dynamo_ext.backends.support.single_op import is_convolution, operator_name, weights_place

GROUP = 128
"""Activations that share a scale, along a row: fewer are more exact and slower."""

_MOST = 127


def compress(
    graph: GraphModule, calls: Sequence[Sequence[Any]] = (), full: Collection[str] = ()
) -> None:
    """Round the constant weights of a partition's products, with a scale for each column.

    Those of convolutions, with a scale for each output channel, where ``calls``, which are inputs
    of the partition, tell the ranges of activations. Weights that are not finite stay as they are,
    as do the products that ``full`` names. Raises ``StayEager`` where no product is rounded.
    """
    others = [node for node in graph.graph.nodes if node.name not in full]
    weights = {node: found for node in others if (found := _weight(graph, node))}
    convolutions = list(filter(is_convolution, weights))
    read: set[Any] = {node.args[0] for node in convolutions}
    activations: Any = activation_ranges.rounded(graph, read, calls)
    lowered: dict[Node, Node] = {}
    for node, (operand, weight) in weights.items():
        if node in convolutions:
            if node.args[0] not in activations:
                continue
            node.update_arg(0, activations[node.args[0]])
        if operand not in lowered:
            lowered[operand] = _rounded(graph, operand, weight)
        node.update_arg(precision.WEIGHTS[operator_name(node.target)], lowered[operand])
    if not lowered:
        raise precision.nothing_to_round(engine="OpenVINO", convolutions=bool(convolutions))
    graph.graph.eliminate_dead_code()
    graph.recompile()


def _weight(graph: GraphModule, node: Node) -> tuple[Node, torch.Tensor] | None:
    """Where a product's weights come from and what they are, if they can be rounded."""
    place = weights_place(node)
    if place is None:
        return None
    operand: Any = node.args[place]
    weight = constant(graph, operand)
    if weight is None or weight.dtype is not torch.float32 or not weight.isfinite().all():
        return None
    # OpenVINO fails to compute a product of two constants in advance if one is in integers.
    if constant(graph, node.args[place - 1]) is not None:
        return None
    return operand, weight


def constant(graph: GraphModule, node: Any) -> Any:
    """The value of a node that is a constant, or a view of one; else ``None``."""
    if node.op == "get_attr":
        return attribute(graph, node.target)
    source = constant(graph, node.args[0]) if is_view(node) else None
    return None if source is None else node.target(source, *node.args[1:], **node.kwargs)


def _rounded(graph: GraphModule, operand: Node, weight: torch.Tensor) -> Node:
    """What computes nearly ``weight`` from integers, in front of the node that gives it."""
    aten = torch.ops.aten
    matrix = weight.ndim == 2  # noqa: PLR2004 - of a product, with its columns last
    rows = weight.T if matrix else weight
    sizes = rows.abs().amax(list(range(1, rows.ndim)), keepdim=True)
    # Without VNNI two products are added in 16 bits.
    most = _MOST if matrix or precision.has_vnni() else _MOST // 2
    scales = (sizes / most).clamp_min(torch.finfo(torch.float32).tiny)
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
        return nodes.call_function(aten.permute.default, (scaled, [1, 0])) if matrix else scaled
