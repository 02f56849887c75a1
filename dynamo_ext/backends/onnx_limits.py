"""What ONNX Runtime must not be given although it converts, and what it cannot be given."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import onnx_session, torch_private
from dynamo_ext.backends.single_operation import operator_name

if TYPE_CHECKING:
    from torch.fx import Node

_DIVISIONS = ("aten::div", "aten::floor_divide", "aten::remainder", "aten::fmod")
_SCATTERS = ("aten::scatter_add", "aten::scatter_reduce")
_EXTREMES = (
    "aten::amax",
    "aten::amin",
    "aten::aminmax",
    "aten::argmax",
    "aten::argmin",
    "aten::max",
    "aten::min",
)
"""Reductions; ``maximum`` and ``minimum`` of two tensors and the poolings go by other names."""

_MAYBE_EXTREME = ("aten::linalg_vector_norm", "aten::scatter_reduce")
_EXTREME_MODES = ("amax", "amin", math.inf, -math.inf)
_SUMS = ("aten::sum", "aten::prod")
_ANTIALIASED = ("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa")
_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"


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


def objection(node: Node) -> str:
    """Why a node cannot be given to ONNX Runtime, as far as shows without trying; or nothing."""
    name = operator_name(node.target)
    for rule in _RULES:
        found = rule(node, name)
        if found:
            return found
    if torch_private.onnx_function(node) is None:
        return "torch.onnx has no conversion for it."
    return ""


def _tensors(node: Node, _: str) -> str:
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
    if any(_is_empty(a.meta.get("val")) for a in node.all_input_nodes):
        # A product over nothing forgets its bias, a mean of nothing is 0, and so on.
        return "ONNX Runtime does not compute on tensors without elements as torch does."
    return ""


def _reductions(node: Node, name: str) -> str:
    packet, dtype = name.partition(".")[0], _input_dtype(node)
    extreme = packet in _MAYBE_EXTREME and any(a in _EXTREME_MODES for a in node.args)
    if (extreme or packet in _EXTREMES) and dtype.startswith(("float", "bfloat")):
        return "ONNX Runtime passes over NaN where torch keeps it."
    if packet in _SUMS and dtype == "int64":
        return "ONNX Runtime sums 64-bit integers as floating-point numbers."
    if packet == "aten::logsumexp":
        return "ONNX Runtime's log-sum-exp stays at -inf where it begins with it."
    if packet == "aten::logcumsumexp":
        return "torch.onnx's logcumsumexp loses what comes before a larger number."
    if packet == "aten::scatter_reduce" and "mean" in node.args:
        return "torch.onnx converts scatter_reduce with mean to something else."
    return ""


def _arithmetic(node: Node, name: str) -> str:
    """Conversions that load and run, and on some data give something else than torch."""
    if name.startswith(_DIVISIONS) and _integral(node):
        divisor = node.args[1] if len(node.args) > 1 else None
        if not isinstance(divisor, int) or divisor in (0, -1):
            # The least integer divided by -1 ends the process; zero gives a number.
            return "ONNX Runtime's integer division does not raise as torch's does."
        if node.kwargs.get("rounding_mode") is not None or name.startswith("aten::fmod"):
            return "torch.onnx divides integers as float32, which has not all of them."
    if name.startswith("aten::remainder") and not _integral(node):
        return "torch.onnx's remainder is not exact where the quotient is large."
    if name.startswith("aten::atan2"):
        return "torch.onnx's atan2 has the wrong sign where the quotient is zero."
    return ""


def _special_values(node: Node, name: str) -> str:
    """NaN, infinity and the negative zero."""
    if name == "aten::sign":
        return "ONNX Runtime's sign of NaN is NaN, and torch's is 0."
    if _integral_input(node):
        return ""
    if name == "aten::signbit":
        return "torch.onnx compares with zero, so that -0.0 has no sign."
    if name == "aten::heaviside":
        return "torch.onnx's heaviside of NaN is 1, and torch's is 0."
    if name.startswith("aten::floor_divide") or node.kwargs.get("rounding_mode") == "floor":
        return "torch.onnx divides infinity and rounds it down to infinity, and torch's is NaN."
    return ""


def _bags(_: Node, name: str) -> str:
    if name.startswith("aten::_embedding_bag"):
        return "ONNX has a loop for uneven bags, which takes offsets that torch refuses."
    return ""


def _tails(_: Node, name: str) -> str:
    if name.startswith(("aten::erfc", "aten::special_erfcx")):
        return "torch.onnx takes erf from 1, which leaves nothing of small results."
    return ""


def _integers(node: Node, name: str) -> str:
    if name.startswith("aten::pow") and _integral(node):
        return "ONNX Runtime raises integers to powers as floating-point numbers."
    if name.startswith("aten::topk") and _integral_input(node):
        return "Of equal numbers, ONNX Runtime names others than torch as the largest."
    return truncated(node)


def truncated(node: Node) -> str:
    """Whether torch.onnx makes an integer of a number that is none; for engines behind it."""
    scalar = operator_name(node.target).endswith(".Scalar")
    if scalar and _integral_input(node) and _has_float(node):
        return "torch.onnx takes the number for an integer, as the tensor's are."
    return ""


def _layouts(node: Node, name: str) -> str:
    if name.startswith(_SCATTERS) and _narrow(node):
        return "ONNX Runtime has no kernel that scatters and adds up this dtype."
    if name.startswith("aten::scatter") and _scatters_in_part(node):
        return "ONNX Runtime scatters all of a tensor, and torch as much as there are indices."
    if name.startswith("aten::as_strided"):
        return "It reads memory as it lies, and ONNX Runtime sees only the elements."
    if name.startswith(_ANTIALIASED) and True in node.args[2:3]:
        return "ONNX Runtime's antialiased resizing aligns no corners."
    override = node.args[6] if len(node.args) > 6 else node.kwargs.get("divisor_override")  # noqa: PLR2004 - its position
    if name.startswith("aten::avg_pool") and override is not None:
        return "ONNX Runtime's average pooling has no divisor of its own."
    return ""


def _conversions(node: Node, name: str) -> str:
    if name.startswith(_ATTENTION):
        if _secondary_used(node):
            return "torch.onnx makes up the results of it that the backward graph needs."
        if node.kwargs.get("attn_mask") is not None:
            return "torch.onnx gives NaN for a row that is masked throughout, and torch gives 0."
        heads = [source.meta["val"].shape[1] for source in node.all_input_nodes[:2]]
        if heads[0] != heads[-1]:
            return "torch.onnx's attention has as many heads of keys as of queries."
    return ""


def _scatters_in_part(node: Node) -> bool:
    """Whether a scatter has more values than indices."""
    import torch

    index, source = (getattr(a, "meta", {}).get("val") for a in node.args[2:4])
    if not (isinstance(index, torch.Tensor) and isinstance(source, torch.Tensor)):
        return False
    return any(
        isinstance(size, int) and isinstance(of, int) and size != of
        for size, of in zip(index.shape, source.shape, strict=False)
    )


def _is_empty(value: object) -> bool:
    import torch

    return isinstance(value, torch.Tensor) and any(
        isinstance(size, int) and size == 0 for size in value.shape
    )


def _input_dtype(node: Node) -> str:
    """The dtype of a node's first tensor (``float32``)."""
    import torch

    for source in node.all_input_nodes:
        value = source.meta.get("val")
        if isinstance(value, torch.Tensor):
            return str(value.dtype).removeprefix("torch.")
    return ""


def _secondary_used(node: Node) -> bool:
    """Whether anything but the first of a node's results is read."""
    return any(user.target is operator.getitem and user.args[1] != 0 for user in node.users)


def _narrow(node: Node) -> bool:
    import torch

    value = node.meta.get("val")
    narrow = (torch.float16, torch.bfloat16, torch.bool)
    return isinstance(value, torch.Tensor) and value.dtype in narrow


def _has_float(node: Node) -> bool:
    return any(isinstance(argument, float) for argument in node.args)


def _integral_input(node: Node) -> bool:
    return not _input_dtype(node).startswith(("float", "bfloat", "complex"))


def _integral(node: Node) -> bool:
    import torch

    value = node.meta.get("val")
    return (
        isinstance(value, torch.Tensor)
        and not value.is_floating_point()
        and value.dtype is not torch.bool
    )


_RULES = (
    _tensors,
    _reductions,
    _arithmetic,
    _special_values,
    _bags,
    _tails,
    _integers,
    _layouts,
    _conversions,
)
