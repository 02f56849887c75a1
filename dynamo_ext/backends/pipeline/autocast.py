"""A captured graph under autocast: products and convolutions in half the bits, as torch has it.

Torch's own lists say which operations are computed in the lower dtype, and which (norms, softmax,
losses) stay in float32. Results leave the graph in the dtypes that they have without it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.backends.fx_graph import held_tensors, own_copy
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from torch.fx import GraphModule, Node

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def under_autocast(
    graph: GraphModule, example_inputs: Sequence[Any], precision: str
) -> GraphModule:
    """A copy of a captured graph with its operations under autocast.

    Parameters
    ----------
    graph
        As Dynamo captured it; it is not changed.
    example_inputs
        One for each placeholder: their devices are those that autocast is entered for.
    precision
        ``bf16`` or ``fp16``.
    """
    made = own_copy(graph)
    nodes = made.graph
    output = nodes.output_node()
    first = next(node for node in nodes.nodes if node.op != "placeholder")
    entered = []
    enter, leave = dispatch.autocast_marks()
    with nodes.inserting_before(first):
        for device in _devices([*example_inputs, *held_tensors(graph)]):
            given = (device, _DTYPES[precision], True, True)
            entered.append(nodes.call_function(enter, given))
    with nodes.inserting_before(output):
        for each in reversed(entered):
            nodes.call_function(leave, (each,))
        replaced = {node: _as_before(node) for node in output.all_input_nodes}
    output.args = torch.fx.map_arg(output.args, lambda node: replaced[node])
    made.recompile()
    return made


def _devices(values: Sequence[Any]) -> list[str]:
    kinds = [value.device.type for value in values if isinstance(value, torch.Tensor)]
    return list(dict.fromkeys(kinds)) or ["cpu"]


def _as_before(node: Node) -> Node:
    """A result of the graph in its own dtype; an input, or a view of one, has that already."""
    value = node.meta.get("example_value")
    if not isinstance(value, torch.Tensor) or not value.is_floating_point():
        return node
    if root_of(node).op in ("placeholder", "get_attr"):
        return node
    made = node.graph.call_method("to", (node, value.dtype))
    made.meta = {**node.meta}
    return made
