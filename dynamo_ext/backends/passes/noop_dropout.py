"""Dropout that drops nothing gives its input itself, as in eager.

AOTAutograd traces it as a copy: what the user then writes to the result would not reach the input.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional

from dynamo_ext.backends import effects
from dynamo_ext.torch_private import fx_nodes

_DIMENSIONS: Mapping[Any, int] = {
    functional.dropout: 0,
    functional.dropout1d: 3,
    functional.dropout2d: 4,
    functional.dropout3d: 5,
    functional.alpha_dropout: 0,
    functional.feature_alpha_dropout: 0,
    torch.dropout: 0,
    torch.alpha_dropout: 0,
    torch.feature_alpha_dropout: 0,
}
"""Functions that drop, and for how many dimensions (0: any): with fewer, they give a view."""


def give_inputs(graph: GraphModule) -> None:
    """Leave out, of a graph as Dynamo hands it over, each dropout that returns its input."""
    idle = [node for node in graph.graph.nodes if node.op == "call_function" and _is_idle(node)]
    for node in idle:
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    if idle:
        graph.recompile()


def _is_idle(node: Node) -> bool:
    target: Any = node.target
    dimensions = _DIMENSIONS.get(target)
    if dimensions is None or not node.args:
        return False
    source: Any = node.args[0]
    value = getattr(source, "meta", {}).get("example_value")
    if dimensions and (value is None or value.dim() != dimensions):
        return False
    given = effects.bound(node) or fx_nodes.arguments(node, fx_nodes.overloads(target)[0])
    probability, training = given.get("p"), given.get("training", given.get("train"))
    return training is False or (isinstance(probability, float) and probability == 0)
