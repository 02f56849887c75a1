"""What ONNX Runtime must not be given although it converts, and what it cannot be given."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import onnx_session, torch_private

if TYPE_CHECKING:
    from torch.fx import Node

_DIVISIONS = ("aten::div", "aten::floor_divide", "aten::remainder", "aten::fmod")
_PRIMARY_ONLY = ("aten::_scaled_dot_product_flash_attention_for_cpu", "aten::_embedding_bag")


def _dtypes() -> frozenset[Any]:
    """Dtypes that cross between torch and ONNX Runtime by DLPack."""
    import torch

    return frozenset(
        {
            torch.float32,
            torch.float64,
            torch.float16,
            torch.bfloat16,
            torch.int64,
            torch.int32,
            torch.int16,
            torch.int8,
            torch.uint8,
            torch.bool,
        }
    )


def operator_name(op: Any) -> str:
    """An operator's name as torch registers it (``aten::div.Tensor_mode``)."""
    name = getattr(op, "name", None)
    return str(name()) if callable(name) else str(op)


def objection(node: Node) -> str:
    """Why a node cannot be given to ONNX Runtime, as far as shows without trying; or nothing."""
    import torch

    known = _dtypes()
    for value in (node.meta.get("val"), *(a.meta.get("val") for a in node.all_input_nodes)):
        for tensor in value if isinstance(value, (tuple, list)) else (value,):
            if not isinstance(tensor, torch.Tensor):
                continue
            if tensor.layout is not torch.strided or tensor.is_quantized:
                return "ONNX Runtime takes dense tensors only."
            if tensor.device.type != "cpu" and not (tensor.is_cuda and onnx_session.has_cuda()):
                return f"This ONNX Runtime does not run on {tensor.device.type} devices."
            if tensor.dtype not in known:
                return f"ONNX Runtime takes no {str(tensor.dtype).removeprefix('torch.')} tensors."
    wrong = _computes_otherwise(node)
    if wrong:
        return wrong
    if torch_private.onnx_function(node) is None:
        return "torch.onnx has no conversion for it."
    return ""


def _computes_otherwise(node: Node) -> str:
    """Conversions that load and run, and on some data give something else than torch."""
    name = operator_name(node.target)
    if name.startswith(_DIVISIONS) and _integral(node):
        divisor = node.args[1] if len(node.args) > 1 else None
        literal = isinstance(divisor, int) and divisor not in (0, -1)
        if not literal or node.kwargs.get("rounding_mode") == "trunc":
            # The least integer divided by -1 ends the process; zero gives a number.
            return "ONNX Runtime's integer division does not raise as torch's does."
    if name == "aten::sign":
        return "ONNX Runtime's sign of NaN is NaN, and torch's is 0."
    if name.startswith("aten::scatter_reduce") and "mean" in node.args:
        return "torch.onnx converts scatter_reduce with mean to something else."
    if name.startswith(_PRIMARY_ONLY) and _secondary_used(node):
        return "torch.onnx makes up the results of it that the backward graph needs."
    masked = node.kwargs.get("attn_mask") is not None
    if masked and "_scaled_dot_product_flash_attention_for_cpu" in name:
        return "torch.onnx gives NaN for a row that is masked throughout, and torch gives 0."
    return ""


def _secondary_used(node: Node) -> bool:
    """Whether anything but the first of a node's results is read."""
    return any(user.target is operator.getitem and user.args[1] != 0 for user in node.users)


def _integral(node: Node) -> bool:
    import torch

    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and not value.is_floating_point()
        and value.dtype is not torch.bool
    )
