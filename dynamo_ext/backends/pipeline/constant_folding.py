"""What depends on no input of a graph, computed once: positions, masks, tables of indices.

As captured they are computed at every call, in eager where an engine has no 64-bit integers, and
an engine is asked about each of them.
"""

from typing import Any

import torch
from torch.fx import GraphModule, Node, map_arg

from dynamo_ext.backends import effects
from dynamo_ext.backends.fx_graph import attribute, hold, is_view
from dynamo_ext.interruptions import failures
from dynamo_ext.torch_private import dispatch, fx_nodes

LARGEST = 1 << 24
"""Bytes of a constant; what is larger is computed again rather than kept."""

ALTOGETHER = 1 << 27
"""Bytes that a graph's constants may take, those included that only lead to others."""


def fold(graph: GraphModule) -> int:
    """Replace operations on constants alone by ``get_attr`` nodes, in place; how many they were.

    What the graph returns, and what its results may be views of, stays as it is: the user may
    write to it.
    """
    values = _values(graph)
    folded = [node for node in values if node.op != "get_attr"]
    for node in folded:
        if any(user not in values for user in node.users):
            hold(graph, f"folded_{node.name}", values[node], node)
    for node in reversed(folded):
        if not node.users:
            graph.graph.erase_node(node)
    if folded:
        graph.recompile()
    return len(folded)


def _values(graph: GraphModule) -> dict[Node, torch.Tensor]:
    """What is constant in a graph, in its order."""
    returned = _returned(graph)
    values: dict[Node, torch.Tensor] = {}
    taken = 0
    for node in graph.graph.nodes:
        found: Any = None
        if node in returned:
            continue
        if taken > ALTOGETHER:
            break
        if node.op == "get_attr":
            found = attribute(graph, str(node.target))
        elif _computable(node) and all(each in values for each in node.all_input_nodes):
            found = _computed(node, values)
            taken += found.nbytes if found is not None else 0
        if dispatch.is_plain_tensor(found):
            values[node] = found
    return values


def _returned(graph: GraphModule) -> set[Node]:
    """The graph's results, and what they may be views of."""
    found = set(graph.graph.output_node().all_input_nodes)
    for node in reversed(graph.graph.nodes):
        # Of this one the schema does not say that it is a view.
        unsaid = str(node.target) == "aten._unsafe_view.default"
        if node in found and (unsaid or is_view(node) or not fx_nodes.is_overload(node.target)):
            found.update(node.all_input_nodes)
    return found


def _computable(node: Node) -> bool:
    """Whether an operation gives the same tensor each time, and no other effect."""
    if node.op != "call_function" or not fx_nodes.is_overload(node.target):
        return False
    target: Any = node.target
    value = node.meta.get("val")
    return (
        target.namespace in ("aten", "prims")
        and "empty" not in target.__name__
        and not any(effects.of_node(node))
        and torch.Tag.data_dependent_output not in target.tags
        and isinstance(value, torch.Tensor)
        and all(isinstance(size, int) for size in (*value.shape, *value.stride()))
        and value.numel() * value.element_size() <= LARGEST
    )


def _computed(node: Node, values: dict[Node, torch.Tensor]) -> Any:
    """The tensor, or ``None`` where it is not what the graph says."""
    target: Any = node.target
    args: Any = map_arg(node.args, values.__getitem__)
    kwargs: Any = map_arg(node.kwargs, values.__getitem__)
    try:
        # A tensor that is born in inference mode has no version by which to know its changes.
        with dispatch.outside_modes(), torch.inference_mode(mode=False), torch.no_grad():
            found = target(*args, **kwargs)
    except failures():  # it will raise again where the user can see it
        return None
    said = node.meta["val"]
    same = dispatch.is_plain_tensor(found) and (
        (found.shape, found.dtype, found.stride(), found.device)
        == (said.shape, said.dtype, said.stride(), said.device)
    )
    return found if same else None
