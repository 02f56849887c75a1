"""One operation in OpenVINO and in eager, on made-up data: the surest answer there is.

The frontend converts much that it gets wrong (NaN, signs, arguments that it drops), so that a
conversion alone says little. A trial takes about 20 ms, once for all nodes that are alike.
"""

from __future__ import annotations

import itertools
import math
import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import openvino_limits, openvino_session, verify

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

_BLOCK = 2**14
"""Elements that are made up; larger inputs repeat them."""

_EDGES = {
    "ordinary": (0.0, 0.5, -0.5, 1.5, 2.5, -1.0, 0.0, 1.0),
    "wide": (1e4, -1e4, 1e-4, -1e-4, 120.0, -120.0, 0.0, 30.0),
    "NaN": (1.0, float("nan"), -1.0),
    "infinite": (1.0, float("inf"), -2.0, float("-inf")),
}
_DATA_FIRST = (
    "aten::_native_batch_norm",
    "aten::convolution",
    "aten::native_layer_norm",
    "aten::native_group_norm",
)
"""Operators whose other inputs are weights and statistics, finite where anything is."""

_FEW = 16
"""Elements that a trial looks at: with fewer in a tensor it looks at several tensors."""


def signature(node: Node) -> Any:
    """Equal for nodes that convert alike: operator, dtypes, ranks, literals, what is read."""
    used = tuple(openvino_limits.used(node))
    return _describe(node.target), _describe(node.args), _describe(dict(node.kwargs)), used


def _describe(value: Any) -> Any:
    import torch
    from torch.fx import Node

    if isinstance(value, Node):
        return ("node", _describe(value.meta.get("val")))
    if isinstance(value, torch.Tensor):
        sizes = tuple(min(s, 2) if isinstance(s, int) else -1 for s in value.shape)
        return (str(value.dtype), sizes)
    if isinstance(value, (list, tuple)):
        return tuple(map(_describe, value))
    if isinstance(value, dict):
        return tuple((key, _describe(item)) for key, item in value.items())
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return type(value).__name__
    return repr(value)


def disagreement(node: Node) -> str:
    """What OpenVINO gets wrong about one operation, as a sentence; empty where nothing shows.

    Parameters
    ----------
    node
        Of a normalised graph; its inputs have values in ``meta``.

    Raises
    ------
    Exception
        Whatever the frontend or the engine raises.
    """
    import torch

    sources = [n for n in node.all_input_nodes if _is_tensor(n)]
    graph = _single(node, sources)
    shapes = [tuple(_size(s) for s in n.meta["val"].shape) for n in sources]
    kinds = [n.meta["val"].dtype for n in sources]
    smallest = min((math.prod(shape) for shape in shapes), default=_FEW)
    repeats = -(-_FEW // max(smallest, 1))
    session: Any = None
    with torch.no_grad():
        for name, seed in itertools.product(_EDGES if sources else ["ordinary"], range(repeats)):
            generator = torch.Generator().manual_seed(seed)
            names = [name] * len(sources)
            if openvino_limits.operator_name(node.target).startswith(_DATA_FIRST):
                names[1:] = ["ordinary"] * (len(sources) - 1)
            data = list(map(_made, shapes, kinds, names, itertools.repeat(generator)))
            try:
                expected = list(graph(*data))
            except Exception:  # noqa: BLE001, S112 - eager refuses these data, so they cannot come
                continue
            if session is None:
                _note(graph, data, expected)
                session = openvino_session.Session(graph, {})
            kept = [value.clone() for value in data]
            wrong = verify.disagreement(session.run(*data), expected)
            if wrong:
                return f"OpenVINO gives something else on {name} values: {wrong}"
            if verify.disagreement(data, kept):
                return "OpenVINO changes its inputs."
    return "" if session is not None else "No data were found to try it on."


def _is_tensor(node: Node) -> bool:
    import torch

    return isinstance(node.meta.get("val"), torch.Tensor)


def _size(value: Any) -> int:
    import torch

    if isinstance(value, torch.SymInt):
        hint = value.node.hint
        return int(hint) if hint is not None else 2
    return int(value)


def _single(node: Node, sources: list[Node]) -> GraphModule:
    """The operation alone, with its tensors as inputs and its numbers as they are."""
    import torch
    from torch.fx import Graph, GraphModule, map_arg

    graph = Graph()
    inputs = {source: graph.placeholder(source.name) for source in sources}

    def stand_in(source: Node) -> Any:
        if source in inputs:
            return inputs[source]
        value = source.meta.get("val")
        return _size(value) if isinstance(value, (int, torch.SymInt)) else value

    target: Any = node.target
    args = map_arg(node.args, stand_in)
    made = graph.call_function(target, args, map_arg(node.kwargs, stand_in))
    if isinstance(node.meta.get("val"), (tuple, list)):
        outputs = tuple(
            graph.call_function(operator.getitem, (made, i)) for i in openvino_limits.used(node)
        )
    else:
        outputs = (made,)
    graph.output(outputs)
    return GraphModule({}, graph)


def _note(graph: GraphModule, data: list[Any], expected: list[Any]) -> None:
    """Write the values into ``meta``, where AOTAutograd would have left fake ones."""
    values = iter(data)
    for node in graph.graph.nodes:
        if node.op == "placeholder":
            node.meta["val"] = next(values)
    outputs: Any = graph.graph.output_node().args[0]
    for node, value in zip(outputs, expected, strict=True):
        node.meta["val"] = value


def _made(
    shape: tuple[int, ...], kind: torch.dtype, name: str, generator: torch.Generator
) -> torch.Tensor:
    """A tensor of ordinary values, with those of a name strewn in."""
    import torch

    total = math.prod(shape)
    count = min(total, _BLOCK)
    if kind is torch.bool:
        flat = torch.rand(count, generator=generator) > 0.5  # noqa: PLR2004 - even chances
        if name in ("NaN", "infinite"):
            flat.fill_(name == "NaN")
    else:
        width = 50.0 if name == "wide" else 2.0
        values = torch.randn(count, generator=generator) * width
        edges = torch.tensor(_EDGES[name])
        edges = edges[torch.randperm(len(edges), generator=generator)]
        places = torch.randperm(count, generator=generator)[: len(edges)]
        values[places] = edges[: len(places)]
        flat = values.to(kind)
    if total > count:
        flat = flat.repeat(-(-total // count))[:total]
    return flat.reshape(shape)
