"""What torch's schemas say of the operations of a graph."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.fx import Node

_CAPTURED = "dynamo_ext_captured"


def arguments(node: Node, overload: Any = None) -> dict[str, Any]:
    """The arguments of a call by the names of ``overload`` or its target, defaults included."""
    return named(overload or node.target, node.args, node.kwargs)


def named(overload: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by their names in an overload's schema, defaults included."""
    usual = _defaults(overload)
    return {**usual, **dict(zip(usual, args, strict=False)), **kwargs}


@functools.lru_cache(maxsize=4096)
def _defaults(overload: Any) -> Mapping[str, Any]:
    return {each.name: each.default_value for each in overload._schema.arguments}


def captured_name(node: Node) -> str:
    """The operation of the graph as Dynamo captured it that a node came of; empty if unknown."""
    sources = node.meta.get("from_node")
    if not sources:
        return str(node.meta.get(_CAPTURED, ""))
    source = sources[0]
    while source.from_node:
        source = source.from_node[0]
    return str(source.name)


def give_captured_name(node: Node, name: str) -> None:
    """Have ``captured_name`` say so of a node that no tracing made."""
    node.meta[_CAPTURED] = name


def changes_geometry(node: Node) -> bool:
    """Whether an operation changes sizes, strides or memory of a tensor that it is given."""
    if node.op not in {"call_function", "call_method"}:
        return False
    return any(torch.Tag.inplace_view in each.tags for each in overloads(node.target))


def is_higher_order(target: object) -> bool:
    """Whether a node calls an operator that takes graphs."""
    return isinstance(target, torch._ops.HigherOrderOperator)


def is_overload(target: object) -> bool:
    """Whether a node's target is one overload of a dispatcher operator (``aten.add.Tensor``)."""
    return isinstance(target, torch._ops.OpOverload)


def is_operator(target: object, besides: Sequence[str] = ()) -> bool:
    """Whether a node's target is a dispatcher operator, of any library but those named."""
    found = library(target)
    return bool(found) and found not in besides


def library(target: object) -> str:
    """The library (``aten``) of a dispatcher operator; empty for any other target."""
    packet = target.overloadpacket if isinstance(target, torch._ops.OpOverload) else target
    if not isinstance(packet, torch._ops.OpOverloadPacket):
        return ""
    return packet._qualified_op_name.partition("::")[0]


def overload(name: str) -> Any:
    """The overload of ATen of that name (``gelu.default``)."""
    packet, _, which = name.partition(".")
    return getattr(getattr(torch.ops.aten, packet), which)


def overloads(target: Any) -> tuple[Any, ...]:
    """The overloads that a call may be of: an operator's own, or those of ATen's of that name."""
    if is_overload(target):
        return (target,)
    packet: Any = target
    if not isinstance(target, torch._ops.OpOverloadPacket):
        name = target if isinstance(target, str) else getattr(target, "__name__", "")
        packet = _aten_packet(name)
    names = packet.overloads() if packet is not None else ()
    return tuple(getattr(packet, each) for each in names)


@functools.cache
def _aten_packet(name: str) -> Any:
    # Torch looks through all operators for a name that it does not have.
    return getattr(torch.ops.aten, name, None)


def is_seeded(overload: Any) -> bool:
    """Whether an operator draws random numbers, by its tags."""
    return torch.Tag.nondeterministic_seeded in overload.tags


def takes_tensor(node: Node, position: int) -> bool:
    """Whether the schema of a call has a tensor at a position, where a number may be, too."""
    target: Any = node.target
    return str(target._schema.arguments[position].type) == "Tensor"


def checkpoint_operator() -> Any:
    """The higher-order operator that Dynamo writes for ``torch.utils.checkpoint``."""
    return torch.ops.higher_order.tag_activation_checkpoint


def is_traced(values: Sequence[Any]) -> bool:
    """Whether code that gets these values is being traced: with fake tensors, or to a graph."""
    from torch._guards import detect_fake_mode

    return detect_fake_mode(values) is not None
