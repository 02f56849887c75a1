"""A captured graph under autocast: products and convolutions in half the bits, as torch has it.

Torch's own lists say which operations are computed in the lower dtype, and which (norms, softmax,
losses) stay in float32. Results leave the graph in the dtypes that they have without it. Autocast
is on around the calls of the graph, or around its compilation, and no part of it: a graph that
raised would leave it on.
"""

import contextlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from operator import is_not
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.fx_graph import held_tensors, may_differentiate, own_copy
from dynamo_ext.backends.pipeline.input_views import root_of
from dynamo_ext.interruptions import suppressed
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of
from dynamo_ext.torch_private.work import products_in

_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}


class Lowering:
    """Autocast of a ``captured`` graph to ``bf16`` or ``fp16``, on the devices of its tensors."""

    def __init__(self, captured: GraphModule, inputs: Sequence[Any], precision: str) -> None:
        self.captured = captured
        self.dtype = _DTYPES[precision]
        values = [*inputs, *held_tensors(captured)]
        kinds = [value.device.type for value in values if isinstance(value, torch.Tensor)]
        self._devices = tuple(dict.fromkeys(kinds)) or ("cpu",)

    @contextlib.contextmanager
    def on(self) -> Iterator[None]:
        """Autocast, for a compilation of ``graph()``, or as a decorator for calls of it."""
        with contextlib.ExitStack() as stack:
            for device in self._devices:
                stack.enter_context(torch.autocast(device, self.dtype))
            yield

    def graph(self) -> GraphModule:
        """A copy of the graph whose results have eager's dtypes under autocast, too."""
        made = own_copy(self.captured)
        _give_eagers_dtypes(made)
        made.recompile()
        return made

    def product_operations(self, graph: GraphModule, inputs: Sequence[Any]) -> int | None:
        """Operations of products with operands in the lower dtype in a call of ``graph()``.

        It computes none of them. ``None`` where it is not known: in training, where the backward
        graph is another one, with symbolic sizes, and where the graph reads values.
        """
        if may_differentiate(inputs) or any(map(dispatch.is_symbolic, inputs)):
            return None
        # Not every graph runs without values.
        with suppressed(Exception), dispatch.outside_modes(), dispatch.fake_mode(), self.on():
            given = [_alike(value) for value in inputs]
            return products_in(self.dtype, lambda: forward_of(graph)(*given))
        return None


def _alike(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device=value.device)


def _give_eagers_dtypes(graph: GraphModule) -> None:
    output = graph.graph.output_node()
    roots = {node: root_of(node) for node in filter(_may_be_lower, output.all_input_nodes)}
    shared = Counter(roots.values())
    for node, root in roots.items():
        if shared[root] == 1:
            with graph.graph.inserting_before(output):
                made = _cast(node)
            made.meta = {**node.meta}
            output.replace_input_with(node, made)
        elif "example_value" in root.meta:
            # Results in one memory: views of the copy, where each by itself would be a copy.
            with graph.graph.inserting_after(root):
                made = _cast(root)
            root.replace_all_uses_with(made, delete_user_cb=partial(is_not, made))
            made.meta = {**root.meta}
            # For what looks for views, it is the copy that the operation gave.
            del root.meta["example_value"]


def _may_be_lower(node: Node) -> bool:
    """Whether a result is of floating numbers; an input, or a view of one, has eager's dtype."""
    value = node.meta.get("example_value")
    floating = isinstance(value, torch.Tensor) and value.is_floating_point()
    return floating and root_of(node).op not in ("placeholder", "get_attr")


def _cast(node: Node) -> Node:
    return node.graph.call_method("to", (node, node.meta["example_value"].dtype))
