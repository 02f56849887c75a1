"""A normalised graph as text: operations of ATen's with their arguments, and what each gives.

A line of ``relu(a)`` of ``float32[2, 4]`` is, after those of what it reads::

    {"name": "relu", "op": "call_function", "target": "aten.relu.default",
     "args": [{"node": "arg0_1"}], "kwargs": {}, "captured": 3,
     "value": {"dtype": "torch.float32", "device": "cpu", "shape": [2, 4], "strides": [4, 1]}}

``captured`` is the place, in the graph as Dynamo captured it, of the operation that it came of.
"""

import json
import operator
from collections.abc import Mapping
from typing import Any

import torch
from torch.fx import Graph, GraphModule, Node

from dynamo_ext.backends.fx_graph import WithoutCode, attribute
from dynamo_ext.backends.graph_key import LIBRARIES
from dynamo_ext.torch_private import dispatch, fx_nodes

LARGEST = 1 << 16
"""Bytes of a constant, at most."""

_ENUMERATIONS = (torch.dtype, torch.layout, torch.memory_format)
_PLAIN = (int, float, bool, str, type(None))


def written(graph: GraphModule, captured: Mapping[str, int]) -> str:
    """The text of a graph; ``captured`` has the places of captured operations, by name.

    Raises ``ValueError`` where something of it cannot be written.
    """
    return "\n".join(json.dumps(_line(graph, node, captured)) for node in graph.graph.nodes)


def read(text: str, captured: Mapping[int, str]) -> GraphModule:
    """The graph that was written, its values fake tensors of Dynamo's mode.

    ``captured`` has the names of captured operations, by place.
    """
    graph, root, mode = Graph(), torch.nn.Module(), dispatch.mode_of_tracing()
    nodes: dict[str, Node] = {}
    for line in map(json.loads, text.splitlines()):
        args, target = _read(line["args"], nodes), line["target"]
        kwargs = {name: _read(value, nodes) for name, value in line["kwargs"].items()}
        if line["op"] == "get_attr":
            setattr(root, target, _tensor(line["content"]))
        elif line["op"] == "call_function":
            target = operator.getitem if target == "getitem" else _overload(target)
        node = graph.create_node(line["op"], target, tuple(args), kwargs, line["name"])
        nodes[line["name"]] = node
        if "value" in line:
            node.meta["val"] = _value(line["value"], mode)
        if line["captured"] is not None:
            fx_nodes.give_captured_name(node, captured[line["captured"]])
    return WithoutCode(root, graph)


def _line(graph: GraphModule, node: Node, captured: Mapping[str, int]) -> dict[str, Any]:
    line = {
        "name": node.name,
        "op": node.op,
        "target": _target(node),
        "args": list(map(_written, node.args)),
        "kwargs": {name: _written(value) for name, value in node.kwargs.items()},
        "captured": captured.get(fx_nodes.captured_name(node)),
    }
    if node.op == "get_attr":
        line["content"] = _content(attribute(graph, str(node.target)))
    if "val" in node.meta:
        line["value"] = _facts(node.meta["val"])
    return line


def _target(node: Node) -> str:
    if node.op != "call_function":
        return str(node.target)
    if node.target is operator.getitem:
        return "getitem"
    if not fx_nodes.is_overload(node.target) or node.target.namespace not in LIBRARIES:  # type: ignore[union-attr]
        raise ValueError(node.target)
    return str(node.target)


def _overload(name: str) -> Any:
    library, packet, overload = name.split(".")
    if library not in LIBRARIES:
        raise ValueError(name)
    return getattr(getattr(getattr(torch.ops, library), packet), overload)


def _written(value: Any) -> Any:
    if isinstance(value, Node):
        return {"node": value.name}
    if isinstance(value, tuple):
        return {"tuple": list(map(_written, value))}
    if isinstance(value, list):
        return list(map(_written, value))
    if isinstance(value, _ENUMERATIONS):
        return {"torch": str(value)}
    if isinstance(value, torch.device):
        return {"device": str(value)}
    if type(value) not in _PLAIN:
        raise ValueError(value)
    return value


def _read(value: Any, nodes: Mapping[str, Node]) -> Any:
    if isinstance(value, list):
        return [_read(each, nodes) for each in value]
    if not isinstance(value, dict):
        return value
    match value:
        case {"node": name}:
            return nodes[name]
        case {"tuple": values}:
            return tuple(_read(values, nodes))
        case {"torch": name}:
            return _enumerated(name)
        case {"device": name}:
            return torch.device(name)
    raise ValueError(value)


def _enumerated(name: str) -> Any:
    value = getattr(torch, name.removeprefix("torch."))
    if not isinstance(value, _ENUMERATIONS):
        raise ValueError(name)  # noqa: TRY004 - of a text
    return value


def _facts(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return list(map(_facts, value))
    if not isinstance(value, torch.Tensor):
        return {"number": _written(value)}
    if value.layout is not torch.strided or dispatch.is_symbolic(value):
        raise ValueError(value)
    return {
        "dtype": str(value.dtype),
        "device": str(value.device),
        "shape": list(value.shape),
        "strides": list(value.stride()),
    }


def _value(facts: Any, mode: Any) -> Any:
    if isinstance(facts, list):
        return tuple(_value(each, mode) for each in facts)
    if "number" in facts:
        return facts["number"]
    dtype, device = _enumerated(facts["dtype"]), torch.device(facts["device"])
    return dispatch.fake_tensor(mode, facts["shape"], facts["strides"], dtype, device)


def _content(constant: Any) -> dict[str, Any]:
    """A small constant, byte for byte."""
    if not dispatch.is_plain_tensor(constant) or constant.nbytes > LARGEST:
        raise ValueError(constant)
    row = constant.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
    return {"facts": _facts(constant), "bytes": bytes(row.tolist()).hex()}


def _tensor(content: Mapping[str, Any]) -> torch.Tensor:
    facts = content["facts"]
    values = bytearray.fromhex(content["bytes"])
    dtype, device = _enumerated(facts["dtype"]), torch.device(facts["device"])
    made = torch.empty_strided(facts["shape"], facts["strides"], dtype=dtype, device=device)
    if values:
        made.copy_(torch.frombuffer(values, dtype=dtype).view(facts["shape"]))
    return made
