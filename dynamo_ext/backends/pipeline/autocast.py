"""A captured graph under autocast: products and convolutions in half the bits, as torch has it.

Torch's own lists say which operations are computed in the lower dtype, and which (norms, softmax,
losses) stay in float32. Results leave the graph in the dtypes that they have without it. Autocast
is on around the calls of the graph, or around its compilation, and no part of it: a graph that
raised would leave it on.
"""

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.fx_graph import held_tensors, own_copy
from dynamo_ext.backends.pipeline.input_views import root_of

DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


def with_eagers_dtypes(graph: GraphModule) -> GraphModule:
    """A copy of a captured graph whose results have eager's dtypes under autocast, too."""
    made = own_copy(graph)
    output = made.graph.output_node()
    with made.graph.inserting_before(output):
        replaced = {node: _as_before(node) for node in output.all_input_nodes}
    output.args = torch.fx.map_arg(output.args, lambda node: replaced[node])
    made.recompile()
    return made


def autocast_for(
    graph: GraphModule, inputs: Sequence[Any], precision: str
) -> Callable[[], contextlib.AbstractContextManager[None]]:
    """Makes contexts of autocast to ``bf16`` or ``fp16`` on the devices of a graph's tensors."""
    values = [*inputs, *held_tensors(graph)]
    kinds = [value.device.type for value in values if isinstance(value, torch.Tensor)]
    devices = tuple(dict.fromkeys(kinds)) or ("cpu",)

    @contextlib.contextmanager
    def lowering() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for device in devices:
                stack.enter_context(torch.autocast(device, DTYPES[precision]))
            yield

    return lowering


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
