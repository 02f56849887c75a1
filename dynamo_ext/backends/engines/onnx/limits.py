"""What torch's ONNX exporter must not be given, whichever engine is behind it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.backends.support.single_op import operator_name

if TYPE_CHECKING:
    from torch.fx import Node


def truncated(node: Node) -> str:
    """Whether torch.onnx makes an integer of a number that is none; for engines behind it."""
    scalar = operator_name(node.target).endswith(".Scalar")
    if scalar and integral_input(node) and _has_float(node):
        return "torch.onnx takes the number for an integer, as the tensor's are."
    return ""


def _has_float(node: Node) -> bool:
    return any(isinstance(argument, float) for argument in node.args)


def integral_input(node: Node) -> bool:
    """Whether an operation's first tensor holds integers or truths."""
    return not input_dtype(node).startswith(("float", "bfloat", "complex"))


def input_dtype(node: Node) -> str:
    """The dtype of a node's first tensor (``float32``)."""
    import torch

    for source in node.all_input_nodes:
        value = source.meta.get("val")
        if isinstance(value, torch.Tensor):
            return str(value.dtype).removeprefix("torch.")
    return ""
