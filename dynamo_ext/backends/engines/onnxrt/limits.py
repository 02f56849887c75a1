"""What ONNX Runtime must not be given although it converts, and what it cannot be given."""

import math

import torch
from torch.fx import Node

from dynamo_ext.backends.engines.onnx.limits import input_dtype, integral_input, truncated
from dynamo_ext.backends.engines.onnxrt import session
from dynamo_ext.backends.support import extremes
from dynamo_ext.backends.support.single_op import operator_name, tensor_inputs, used
from dynamo_ext.backends.support.tensor_limits import DTYPES, TensorLimits, is_empty
from dynamo_ext.torch_private import fx_nodes

_DIVISIONS = ("aten::div", "aten::floor_divide", "aten::remainder", "aten::fmod")
_SCATTERS = ("aten::scatter_add", "aten::scatter_reduce")
_EXTREMES = ("aten::amax", "aten::amin", "aten::argmax", "aten::argmin")
"""Reductions; ``maximum`` and ``minimum`` of two tensors and the poolings go by other names."""

_SUMS = ("aten::sum", "aten::prod")
_ANTIALIASED = ("aten::_upsample_bilinear2d_aa", "aten::_upsample_bicubic2d_aa")
_ATTENTION = "aten::_scaled_dot_product_flash_attention_for_cpu"

_NEVER = {
    "aten::_embedding_bag": "ONNX's loop over uneven bags takes offsets that torch refuses.",
    "aten::as_strided": "It reads memory as it lies, and ONNX Runtime sees only the elements.",
    "aten::atan2": "torch.onnx's atan2 has the wrong sign where the quotient is zero.",
    "aten::erfc": "torch.onnx takes erf from 1, which leaves nothing of small results.",
    "aten::logcumsumexp": "torch.onnx's logcumsumexp loses what comes before a larger number.",
    "aten::logsumexp": "ONNX Runtime's log-sum-exp stays at -inf where it begins with it.",
    "aten::special_erfcx": "torch.onnx takes erf from 1, which leaves nothing of small results.",
}
"""Operators, by how their names begin, that are refused whatever their arguments."""

_LIMITS = TensorLimits("ONNX Runtime", DTYPES, "ONNX Runtime takes no {} tensors.")


def unsupported_reason(node: Node) -> str:
    """Why a node cannot be given to ONNX Runtime, as far as shows without trying; or nothing."""
    name = operator_name(node.target)
    return next(filter(None, (rule(node, name) for rule in _RULES)), "")


def _tensors(node: Node, _: str) -> str:
    devices = ("cpu", "cuda") if session.has_cuda() else ("cpu",)
    found = _LIMITS.unsupported_reason(node, devices)
    if not found and any(is_empty(source.meta["val"]) for source in tensor_inputs(node)):
        # A product over nothing forgets its bias, a mean of nothing is 0, and so on.
        return "ONNX Runtime does not compute on tensors without elements as torch does."
    return found


def _numbers(node: Node, _: str) -> str:
    """Numbers beside float64 that reach the engine as float32."""
    given = [each.meta.get("val") for each in node.all_input_nodes]
    wide = any(getattr(v, "dtype", None) is torch.float64 for v in (node.meta.get("val"), *given))
    if wide and any(isinstance(value, torch.SymFloat) for value in given):
        return "torch.onnx makes float32 of a number that is computed from sizes."
    floats = [
        value
        for position, (name, value) in enumerate(fx_nodes.arguments(node).items())
        # The exporter is given a tensor for what may be one; of an eps the magnitude counts.
        if not fx_nodes.takes_tensor(node, position) and name != "eps" and isinstance(value, float)
    ]
    if wide and any(torch.tensor(each).item() not in (each, math.nan) for each in floats):
        return "torch.onnx makes float32 of a number that float32 does not have."
    return ""


def _reductions(node: Node, name: str) -> str:
    packet, dtype = name.partition(".")[0], input_dtype(node)
    floats = dtype.startswith(("float", "bfloat"))
    if (
        packet == "aten::linalg_vector_norm"
        and floats
        and {math.inf, -math.inf} & {*node.args[1:2]}
    ):
        return "ONNX Runtime passes over NaN where torch keeps it."
    extreme = packet in _EXTREMES or {"amax", "amin"} & {*node.args[4:5]}
    if extreme and (large := extremes.refused(node, "ONNX Runtime")):
        return large
    if packet in _SUMS and dtype == "int64":
        return "ONNX Runtime sums 64-bit integers as floating-point numbers."
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
    if name.startswith("aten::pow") and _integral(node):
        return "ONNX Runtime raises integers to powers as floating-point numbers."
    return truncated(node)


def _special_values(node: Node, name: str) -> str:
    """NaN, infinity and the negative zero."""
    if name == "aten::sign":
        return "ONNX Runtime's sign of NaN is NaN, and torch's is 0."
    if integral_input(node):
        return ""
    if name == "aten::signbit":
        return "torch.onnx compares with zero, so that -0.0 has no sign."
    if name == "aten::heaviside":
        return "torch.onnx's heaviside of NaN is 1, and torch's is 0."
    if name.startswith("aten::floor_divide") or node.kwargs.get("rounding_mode") == "floor":
        return "torch.onnx divides infinity and rounds it down to infinity, and torch's is NaN."
    return ""


def _layouts(node: Node, name: str) -> str:
    if name.startswith(_SCATTERS) and _dtype(node) in ("float16", "bfloat16", "bool"):
        return "ONNX Runtime has no kernel that scatters and adds up this dtype."
    if name.startswith("aten::scatter") and _scatters_in_part(node):
        return "ONNX Runtime scatters all of a tensor, and torch as much as there are indices."
    if name.startswith(_ANTIALIASED) and True in node.args[2:3]:
        return "ONNX Runtime's antialiased resizing aligns no corners."
    if name.startswith("aten::avg_pool") and fx_nodes.arguments(node).get("divisor_override"):
        return "ONNX Runtime's average pooling has no divisor of its own."
    return ""


def _conversions(node: Node, name: str) -> str:
    if name.startswith(_ATTENTION):
        if any(used(node)):
            return "torch.onnx makes up the results of it that the backward graph needs."
        if node.kwargs.get("attn_mask") is not None:
            return "torch.onnx gives NaN for a row that is masked throughout, and torch gives 0."
        heads = [source.meta["val"].shape[1] for source in node.all_input_nodes[:2]]
        if heads[0] != heads[-1]:
            return "torch.onnx's attention has as many heads of keys as of queries."
    return ""


def _scatters_in_part(node: Node) -> bool:
    """Whether a scatter has more values than indices."""
    index, source = (getattr(a, "meta", {}).get("val") for a in node.args[2:4])
    if not (isinstance(index, torch.Tensor) and isinstance(source, torch.Tensor)):
        return False
    return any(
        isinstance(size, int) and isinstance(of, int) and size != of
        for size, of in zip(index.shape, source.shape, strict=False)
    )


def _dtype(node: Node) -> str:
    """The dtype of a node's result (``float32``); nothing where it has several."""
    return str(getattr(node.meta.get("val"), "dtype", "")).removeprefix("torch.")


def _integral(node: Node) -> bool:
    return _dtype(node).startswith(("int", "uint"))


def _never(_: Node, name: str) -> str:
    return next((why for prefix, why in _NEVER.items() if name.startswith(prefix)), "")


_RULES = (
    _tensors,
    _never,
    _numbers,
    _reductions,
    _arithmetic,
    _special_values,
    _layouts,
    _conversions,
)
