"""One operation of a normalised graph by itself: its name, what it is like, a graph of it alone.

Engines are asked about operations one by one, and asked once for all that are alike.
"""

import operator
from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node, map_arg

from dynamo_ext.backends import precision
from dynamo_ext.torch_private import dispatch


def operator_name(op: Any) -> str:
    """An operator's name as torch registers it (``aten::div.Tensor_mode``)."""
    name = getattr(op, "name", None)
    return str(name()) if callable(name) else str(op)


def is_convolution(node: Node) -> bool:
    """Whether a node is a convolution, transposed or not."""
    return operator_name(node.target) == precision.CONVOLUTION


def weights_place(node: Node) -> int | None:
    """Where the weights stand in a product that int8 may round; ``None`` of anything else."""
    if is_convolution(node) and node.args[6]:
        # A transposed convolution has its output channels elsewhere.
        return None
    return precision.WEIGHTS.get(operator_name(node.target))


def used(node: Node) -> list[int]:
    """Which of a node's several results are read."""
    positions: list[Any] = [u.args[1] for u in node.users if u.target is operator.getitem]
    return sorted(set(positions))


def results(node: Node) -> list[Any]:
    """The values of a node that anything reads."""
    value = node.meta.get("val")
    return [value[at] for at in used(node)] if isinstance(value, (tuple, list)) else [value]


def tensor_inputs(node: Node) -> list[Node]:
    """The inputs of a node that are tensors, each once."""
    return [n for n in node.all_input_nodes if isinstance(n.meta.get("val"), torch.Tensor)]


def signature(node: Node) -> Any:
    """Equal for nodes that are alike: operator, dtypes, ranks, devices, literals, what is read.

    ``x - x`` and ``x - y`` are not.
    A size counts as 0, 1 or more: what an engine makes of an operation does not hang on it.
    """
    # For each tensor argument, which of the node's inputs it is.
    places: dict[Node, int] = {}
    repeats: list[int] = []
    map_arg((node.args, node.kwargs), lambda n: repeats.append(places.setdefault(n, len(places))))
    what = _describe((node.target, node.args, node.kwargs))
    return what, tuple(used(node)), tuple(repeats)


def _describe(value: Any) -> Any:
    if isinstance(value, Node):
        return ("node", _describe(value.meta.get("val")))
    if isinstance(value, torch.Tensor):
        sizes = tuple(min(s, 2) if isinstance(s, int) else -1 for s in value.shape)
        return (str(value.dtype), sizes, str(value.device))
    if isinstance(value, (list, tuple)):
        return tuple(map(_describe, value))
    if isinstance(value, dict):
        return tuple((key, _describe(item)) for key, item in value.items())
    if isinstance(value, dispatch.SYMBOLS):
        return type(value).__name__
    return repr(value)


def size(value: Any) -> int:
    """A size as a number: a symbolic one as it was when the graph was traced."""
    return int(dispatch.number(value))


def alone(node: Node, sources: Sequence[Node]) -> GraphModule:
    """The operation alone, with ``sources`` as inputs and its numbers as they are.

    Its outputs are those that the node's own graph reads.
    """
    graph = Graph()
    inputs = {source: graph.placeholder(source.name) for source in sources}

    def stand_in(source: Node) -> Any:
        if source in inputs:
            return inputs[source]
        return dispatch.number(source.meta.get("val"))

    target: Any = node.target
    made = graph.call_function(target, map_arg(node.args, stand_in), map_arg(node.kwargs, stand_in))
    outputs: tuple[Any, ...] = (made,)
    if isinstance(node.meta.get("val"), (tuple, list)):
        outputs = tuple(graph.call_function(operator.getitem, (made, i)) for i in used(node))
    graph.output(outputs)
    return GraphModule({}, graph)


def set_meta_values(graph: GraphModule, data: Sequence[Any], expected: Sequence[Any]) -> None:
    """Write the values into ``meta``, where AOTAutograd would have left fake ones."""
    values = iter(data)
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            node.meta["val"] = next(values)
    outputs: Any = graph.graph.output_node().args[0]
    for node, value in zip(outputs, expected, strict=True):
        node.meta["val"] = value
        if node.target is operator.getitem:
            several = node.args[0].meta.setdefault("val", [])
            several += [None] * (node.args[1] + 1 - len(several))
            several[node.args[1]] = value


def scatter_into(
    values: torch.Tensor, edges: torch.Tensor, generator: torch.Generator
) -> torch.Tensor:
    """The values, with the edges in some of the places (all of them, where there are so few)."""
    edges = edges[torch.randperm(len(edges), generator=generator)]
    places = torch.randperm(len(values), generator=generator)[: len(edges)]
    values[places] = edges[: len(places)]
    return values
