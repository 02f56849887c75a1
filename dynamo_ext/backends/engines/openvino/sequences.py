"""What keeps OpenVINO from fusing products in sequence where it must not.

OpenVINO 2026.4 makes one operation of small products that follow each other, and of what is
computed element by element between and behind them. Where its result meets that of other
elementwise operations as an operand, ``compile_model`` reads through a null pointer, which ends
the process. The same happens where the result of two products meets an input of the graph, and a
third product follows. It refuses weights of one element there. What is also a result of the model
is not fused with the product that reads it.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.support.single_op import operator_name

_ROWS = 16
"""Of the products that it fuses: 2026.4 goes up to 8."""


def divide(graph: GraphModule) -> range:
    """Append results, so that nothing is fused that must not be; their places among all results.

    The graph is one from ``convert.prepare``.
    """
    computed: set[Node] = set()
    products: dict[Node, set[Node]] = {}
    meets_input: dict[Node, bool] = {}
    between: dict[Node, Node] = {}
    added: dict[Node, None] = {}
    for node in graph.graph.nodes:
        operands = node.all_input_nodes
        if node.op == "placeholder" or not computed.isdisjoint(operands):
            computed.add(node)
        # It drops operations that change nothing, as the concatenation of one tensor.
        joins = _is_pointwise(node)
        fused = [each for each in operands if joins or _elements(each) == _elements(node)]
        products[node] = {p for each in fused for p in products[each]}
        meets_input[node] = any(meets_input[each] for each in fused)
        if _is_small_product(node) and node.args[-1] not in computed:
            *bias, left, _ = node.args
            if before := products[left]:
                between[node] = left
                if any(map(_has_one_weight, (node, *before))):
                    added[left] = None
                if meets_input[left]:
                    added.update(dict.fromkeys(between[p] for p in before & between.keys()))
            products[node], meets_input[node] = {node}, False
            operands = [node, *bias]
        elif not _is_pointwise(node):
            continue
        follow = products[node] & between.keys()
        if sum(each.op == "call_function" and each in computed for each in operands) > 1:
            added.update(dict.fromkeys(between[p] for p in follow))
        elif follow and len(computed.intersection(operands)) > 1:
            meets_input[node] = True
    output = graph.graph.output_node()
    own: tuple[Node, ...] = output.args[0]  # type: ignore[assignment]
    output.args = ((*own, *(node for node in added if node not in own)),)
    graph.recompile()
    return range(len(own), len(output.args[0]))


def _is_pointwise(node: Node) -> bool:
    return torch.Tag.pointwise in getattr(node.target, "tags", ())


def _elements(node: Node) -> int:
    value = node.meta.get("val")
    first = value[0] if isinstance(value, (tuple, list)) else value
    return first.numel() if isinstance(first, torch.Tensor) else 0


def _is_small_product(node: Node) -> bool:
    name = operator_name(node.target)
    return name in ("aten::mm", "aten::addmm") and node.meta["val"].shape[0] <= _ROWS


def _has_one_weight(product: Node) -> bool:
    left: Any = product.args[-2]
    return bool(product.meta["val"].shape[1] == left.meta["val"].shape[1] == 1)
