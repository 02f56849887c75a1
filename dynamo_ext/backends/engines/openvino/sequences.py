"""What keeps OpenVINO from fusing products in sequence where that ends the process.

OpenVINO 2026.4 makes one operation of small products that follow each other, and of what is
computed element by element between and behind them. Where its result meets that of other
elementwise operations as an operand, ``compile_model`` reads through a null pointer. What is also
a result of the model is not fused with the product that reads it.
"""

import operator

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.fx_graph import is_view
from dynamo_ext.backends.support.single_op import operator_name

_ROWS = 16
"""Of the products that it fuses: 2026.4 goes up to 8."""

_BY_ELEMENT = (
    "aten::_native_batch_norm_legit_no_training",
    "aten::_softmax",
    "aten::_to_copy",
    "aten::hardswish",
)
"""Operations that it may fuse, beside those which torch calls pointwise."""


def divide(graph: GraphModule) -> range:
    """Append results, so that nothing is fused that must not be; their places among all results.

    The graph is one from ``convert.prepare``.
    """
    computed: set[Node] = set()
    products: dict[Node, set[Node]] = {}
    between: dict[Node, Node] = {}
    added: dict[Node, None] = {}
    for node in graph.graph.nodes:
        operands = node.all_input_nodes
        if node.op == "placeholder" or not computed.isdisjoint(operands):
            computed.add(node)
        if _is_small_product(node) and node.args[-1] not in computed:
            *bias, left, _ = node.args
            products[node] = {node}
            if products.get(left):
                between[node] = left
            operands = [node, *bias]
        elif _by_element(node):
            products[node] = {p for each in operands for p in products.get(each, ())}
        else:
            continue
        if sum(each.op == "call_function" and each in computed for each in operands) > 1:
            added.update(dict.fromkeys(between[p] for p in products[node] & between.keys()))
    output = graph.graph.output_node()
    own: tuple[Node, ...] = output.args[0]  # type: ignore[assignment]
    output.args = ((*own, *(added.keys() - own)),)
    graph.recompile()
    return range(len(own), len(output.args[0]))  # type: ignore[arg-type]


def _is_small_product(node: Node) -> bool:
    name = operator_name(node.target)
    return name in ("aten::mm", "aten::addmm", "aten::mv") and node.meta["val"].shape[0] <= _ROWS


def _by_element(node: Node) -> bool:
    if is_view(node) or node.target is operator.getitem or operator_name(node.target) in _BY_ELEMENT:
        return True
    return torch.Tag.pointwise in getattr(node.target, "tags", ())
