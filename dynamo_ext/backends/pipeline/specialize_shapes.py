"""A graph with symbolic sizes made over for one set of shapes, for engines that need that."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node
from torch.fx.passes.fake_tensor_prop import FakeTensorProp

from dynamo_ext.backends.fx_graph import duplicate
from dynamo_ext.torch_private import dispatch


def shape_key(args: Sequence[Any]) -> tuple[Any, ...]:
    """What must be equal for an engine of fixed shapes to serve a call."""
    return tuple(getattr(arg, "shape", arg) for arg in args)


def specialised(graph: GraphModule, args: Sequence[Any]) -> GraphModule:
    """A copy of a partition for the shapes of real inputs: sizes and numbers are constants.

    It has the same placeholders; those for numbers have no users.
    """

    class Propagation(FakeTensorProp):
        def run_node(self, n: Node) -> Any:
            value = super().run_node(n)
            # Torch 2.11 leaves a number's symbol there.
            if isinstance(value, (int, float)):
                n.meta["val"] = value
            return value

    result = duplicate(graph)
    shown = [node.meta.get("val") for node in result.graph.find_nodes(op="placeholder")]
    with dispatch.outside_modes(), torch.no_grad():
        try:
            # By the sizes that torch has written down: to run each operation takes longer.
            plain = dispatch.without_symbols(shown, args)
            found = {n: plain(n.meta["val"]) for n in result.graph.nodes if "val" in n.meta}
        except LookupError:
            Propagation(result, dispatch.fake_mode()).propagate(*args)
        else:
            for node, value in found.items():
                node.meta["val"] = value
    for node in list(result.graph.nodes):
        value = node.meta.get("val")
        if isinstance(value, (int, float)) and node.op in ("placeholder", "call_function"):
            for user in list(node.users):
                user.replace_input_with(node, value)
            if node.op == "call_function":
                result.graph.erase_node(node)
    result.recompile()
    return result
