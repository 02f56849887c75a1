"""What makes two captured graphs the same work: to a race, and to what an engine did with them."""

import hashlib
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.fx_graph import attribute


def graph_key(graph: GraphModule, inputs: Sequence[Any], *, training: bool) -> str:
    """The identity of a graph's work: operators and their order, shapes, strides, dtypes, devices.

    Names do not count, nor do the values of tensors. ``inputs`` are tensors and sizes, one for each
    placeholder; ``training`` says that a backward pass follows.
    """
    numbers: dict[Any, str] = {}
    lines: list[str] = [f"training {training}", *map(_facts, inputs)]
    for node in graph.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        if node.op == "placeholder":
            continue
        arguments = torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__)
        lines.append(f"{node.op} {_target(graph, node)} {arguments}")
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _target(graph: GraphModule, node: Any) -> Any:
    if node.op == "call_module":
        return repr(graph.get_submodule(node.target))
    if node.op == "get_attr":
        return _facts(attribute(graph, node.target))
    name = getattr(node.target, "__name__", None)
    return f"{getattr(node.target, '__module__', '')}.{name}" if name else node.target


def _facts(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        shape = tuple(value.shape)
        strides = value.stride() if value.layout is torch.strided else ()
        return f"{value.dtype} {value.device.type} {shape} {strides} {value.requires_grad}"
    return type(value).__name__ if isinstance(value, torch.SymInt) else repr(value)
