"""Dropout that drops nothing gives its input itself, as in eager.

AOTAutograd traces it as a copy: what the user then writes to the result would not reach the input.
"""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.nn import functional


def give_inputs(graph: GraphModule) -> None:
    """Leave out, of a graph as Dynamo hands it over, each dropout that returns its input."""
    idle = [node for node in graph.graph.nodes if node.op == "call_function" and _is_idle(node)]
    for node in idle:
        node.replace_all_uses_with(node.args[0])
        graph.graph.erase_node(node)
    if idle:
        graph.recompile()


def _is_idle(node: Node) -> bool:
    kinds = _kinds()
    if node.target not in kinds or not node.args:
        return False
    target: Any = node.target
    defaults, dimensions = kinds[target]
    given = {**defaults, **dict(zip(defaults, node.args[1:], strict=False)), **node.kwargs}
    source: Any = node.args[0]
    value = getattr(source, "meta", {}).get("example_value")
    if dimensions and (value is None or value.dim() != dimensions):
        return False
    probability = given["p"]
    return given["training"] is False or (isinstance(probability, float) and probability == 0)


@functools.cache
def _kinds() -> Mapping[Callable[..., Any], tuple[dict[str, Any], int]]:
    """Functions that drop, their arguments' defaults, and for how many dimensions (0: any)."""
    of_torch = {"p": None, "training": None}
    # With fewer dimensions these take a batch of one, and give a view.
    dimensions = {
        functional.dropout: 0,
        functional.dropout1d: 3,
        functional.dropout2d: 4,
        functional.dropout3d: 5,
        functional.alpha_dropout: 0,
        functional.feature_alpha_dropout: 0,
    }
    untyped: tuple[Any, ...] = (torch.dropout, torch.alpha_dropout, torch.feature_alpha_dropout)
    found: dict[Any, tuple[dict[str, Any], int]] = dict.fromkeys(untyped, (of_torch, 0))
    for function, number in dimensions.items():
        parameters = list(inspect.signature(function).parameters.values())[1:]
        found[function] = ({each.name: each.default for each in parameters}, number)
    return found
