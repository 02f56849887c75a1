"""What makes two graphs the same work: to a race, to what an engine did with them, to a program."""

import hashlib
import operator
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends.fx_graph import attribute, is_frozen
from dynamo_ext.torch_private import dispatch, fx_nodes

LIBRARIES = ("aten", "prims")
"""Those whose operators are what their names and torch's version say."""

_LITERALS = (
    Node, bool, int, float, complex, str, torch.dtype, torch.device, torch.layout,
    torch.memory_format,
)  # fmt: skip


def graph_key(graph: GraphModule, inputs: Sequence[Any], *, training: bool) -> str:
    """The identity of a graph's work: operators and their order, shapes, strides, dtypes, devices.

    Names do not count, nor do the values of tensors. ``inputs`` are tensors and sizes, one for each
    placeholder; ``training`` says that a backward pass follows.
    """
    return _digest([f"training {training}", *map(_facts, inputs), *_operations(graph)])


def program_key(graph: GraphModule, versions: str) -> str | None:
    """The identity of the program that an engine converts a partition to.

    Constants count by their values, other than weights that were made constants. ``versions`` are
    those of all that converts. Nothing where a size is a symbol, or an operation is not ATen's.
    """
    lines = [versions, *_operations(graph)]
    for node in graph.graph.nodes:
        value = node.meta.get("val")
        if dispatch.is_symbolic(value) or not _is_atens(node):
            return None
        if is_frozen(node):
            lines.append(node.target)
        elif node.op == "get_attr":
            lines.append(_content(attribute(graph, node.target)))
        lines += map(_facts, value if isinstance(value, list | tuple) else [value])
    return _digest(lines)


def captured_key(graph: GraphModule, inputs: Sequence[Any], facts: Sequence[str]) -> str | None:
    """The identity of what AOTAutograd makes of a captured graph.

    Constants count by their values. ``facts`` are those of all that it depends on besides. Nothing
    where an input is not a plain tensor, two are one, or an operation is not torch's own.
    """
    if len({*map(id, inputs)}) < len(inputs) or not all(map(_is_known, inputs)):
        return None
    lines = [*facts, *map(_whole_facts, inputs), *_operations(graph)]
    for node in graph.graph.nodes:
        if not (_is_torchs(graph, node) and _is_literal([*node.args, *node.kwargs.values()])):
            return None
        if node.op == "get_attr":
            lines.append(_content(attribute(graph, node.target)))
    return _digest(lines)


def _is_known(value: Any) -> bool:
    return type(value) in (torch.Tensor, torch.nn.Parameter) and value.layout is torch.strided


def _whole_facts(tensor: torch.Tensor) -> str:
    kinds = type(tensor).__name__, tensor.is_leaf, tensor.is_inference(), tensor.storage_offset()
    return f"{_facts(tensor)} {tensor.device} {kinds} {tensor.is_conj()} {tensor.is_neg()}"


def _is_torchs(graph: GraphModule, node: Any) -> bool:
    """Whether an operation of a captured graph is known by its name and torch's version."""
    target = node.target
    if node.op == "get_attr":
        constant: Any = attribute(graph, target)
        return _is_known(constant) and not (constant.is_conj() or constant.is_neg())
    if node.op != "call_function":
        return bool(node.op != "call_module")
    if library := fx_nodes.library(target):
        return library in LIBRARIES
    if isinstance(target, types.MethodDescriptorType | types.WrapperDescriptorType):
        return any(target.__objclass__ is each for each in torch.Tensor.__mro__)
    module = str(getattr(target, "__module__", ""))
    if module.partition(".")[0] not in ("torch", "_operator", "math", "builtins"):
        return False
    return bool(getattr(sys.modules.get(module), target.__name__, None) is target)


def _is_literal(value: Any) -> bool:
    """Whether arguments are written the same in every process: numbers, nodes, dtypes."""
    found: list[Any] = []
    torch.fx.node.map_aggregate(value, found.append)
    return all(each is None or each is ... or isinstance(each, _LITERALS) for each in found)


def _operations(graph: GraphModule) -> Iterator[str]:
    numbers: dict[Any, str] = {}
    for node in graph.graph.nodes:
        numbers[node] = f"%{len(numbers)}"
        if node.op != "placeholder":
            arguments = torch.fx.node.map_arg((node.args, node.kwargs), numbers.__getitem__)
            yield f"{node.op} {_target(graph, node)} {arguments}"


def _digest(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:32]


def _is_atens(node: Any) -> bool:
    """Whether an operation is known by its name; one of another library may change its code."""
    if node.op != "call_function" or node.target is operator.getitem:
        return True
    return fx_nodes.is_overload(node.target) and node.target.namespace in LIBRARIES


def _content(constant: torch.Tensor) -> str:
    values: Any = constant.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
    return hashlib.sha256(values).hexdigest()


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
