"""Random numbers that a graph draws and does not use, which AOTAutograd would not draw.

What is drawn after them would be other numbers than eager's. So the compiler gets the graph with
those numbers among its results, and the caller does not get them.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends import effects
from dynamo_ext.backends.fx_graph import own_copy


def drawn(
    graph: GraphModule, compile_all: Callable[[GraphModule], Callable[..., Any]]
) -> Callable[..., Any]:
    """Compile a captured graph such that it draws all that it draws in eager."""
    if not _unused(graph):
        return compile_all(graph)
    more = own_copy(graph)
    output: Any = more.graph.output_node()
    results = tuple(output.args[0])
    output.args = ((*results, *_unused(more)),)
    more.recompile()
    compiled = compile_all(more)
    return lambda *args: compiled(*args)[: len(results)]


def _unused(graph: GraphModule) -> list[Node]:
    """Tensors that are drawn, and that no result or change depends on."""
    unused: dict[Node, bool] = {}
    for node in reversed(graph.graph.nodes):
        if node.op.startswith("call_") and node.users.keys() <= unused.keys():
            does = effects.of_node(node)
            if not does.changes:
                unused[node] = does.draws
    return [
        node
        for node, draws in unused.items()
        if draws and isinstance(node.meta.get("example_value"), torch.Tensor)
    ]
