"""What OpenVINO must not be given although it converts, and what it cannot be given."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from torch.fx import Node

_DTYPES = frozenset({"float32", "bfloat16", "int64", "int32", "bool"})
_WORD = 2**31 - 1

_INDEXING = (
    "aten::embedding",
    "aten::_embedding_bag",
    "aten::gather",
    "aten::index",
    "aten::_unsafe_index",
    "aten::scatter",
    "aten::take",
    "aten::nll_loss",
)
_MOVING = (
    "aten::alias", "aten::clone", "aten::detach", "aten::expand", "aten::flip", "aten::permute",
    "aten::repeat", "aten::select.int", "aten::slice.Tensor", "aten::squeeze", "aten::unsqueeze",
    "aten::transpose", "aten::t", "aten::view", "aten::_unsafe_view", "aten::reshape", "aten::roll",
    "aten::neg", "aten::abs", "aten::where", "aten::cat", "aten::stack", "aten::maximum",
    "aten::minimum", "aten::amax", "aten::amin", "aten::_to_copy", "aten::tril", "aten::triu",
)  # fmt: skip
_POSITIONS = ("aten::argmax", "aten::argmin", "aten::topk", "aten::sort")


def operator_name(op: Any) -> str:
    """An operator's name as torch registers it (``aten::div.Tensor_mode``)."""
    name = getattr(op, "name", None)
    return str(name()) if callable(name) else str(op)


def objection(node: Node) -> str:
    """Why a node cannot be given to OpenVINO, as far as shows without trying; or nothing."""
    import torch

    sources = list(node.all_input_nodes)
    values = [*_results(node), *(s.meta.get("val") for s in sources)]
    for tensor in values:
        if not isinstance(tensor, torch.Tensor):
            continue
        if tensor.layout is not torch.strided or tensor.is_quantized:
            return "OpenVINO takes dense tensors only."
        if tensor.device.type != "cpu":
            return f"This OpenVINO backend does not run on {tensor.device.type} devices."
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in _DTYPES:
            return f"OpenVINO computes no {dtype} tensors as torch does."
    name = operator_name(node.target)
    if "as_strided" in name:
        return "It reads memory as it lies, and OpenVINO's lies differently."
    if name.startswith(_INDEXING) and not _inside(node):
        return "OpenVINO does not check indices as torch does."
    for each in (node, *sources):
        if any(getattr(v, "dtype", None) is torch.int64 for v in _results(each)) and (
            largest(each) is None
        ):
            return "OpenVINO computes int64 in 32 bits."
    return ""


def _results(node: Node) -> Iterator[Any]:
    """The values of a node that anything reads."""
    value = node.meta.get("val")
    if not isinstance(value, (tuple, list)):
        yield value
        return
    for position in used(node):
        yield value[position]


def used(node: Node) -> list[int]:
    """Which of a node's several results are read."""
    return sorted({int(u.args[1]) for u in node.users if u.target is operator.getitem})  # type: ignore[arg-type]


def _inside(node: Node) -> bool:
    """Whether all indices are known to be within the tensor that they index."""
    import torch

    subject, *indices = node.all_input_nodes
    value = subject.meta.get("val")
    if not isinstance(value, torch.Tensor) or not value.dim():
        return False
    least = min(value.shape)
    for index in indices:
        kind = getattr(index.meta.get("val"), "dtype", None)
        if kind not in (torch.int64, torch.int32):
            continue
        bound = largest(index)
        if bound is None or not isinstance(least, int) or bound >= least:
            return False
    return True


def largest(node: Node, depth: int = 12) -> int | None:  # noqa: PLR0911 - one answer for each kind
    """A bound on the magnitude of an integer tensor's elements; ``None`` where none is known."""
    import torch

    value = node.meta.get("val")
    if getattr(value, "dtype", None) is torch.bool:
        return 1
    if getattr(value, "dtype", None) is torch.int32 and node.op != "call_function":
        return _WORD
    if node.op != "call_function" or not depth:
        return None
    name = operator_name(node.target)
    if node.target is operator.getitem:
        source: Any = node.args[0]
        return _sizes(source) if operator_name(source.target).startswith(_POSITIONS) else None
    if name.startswith(_POSITIONS):
        return _sizes(node)
    if name.startswith(("aten::arange", "aten::full", "aten::scalar_tensor")):
        numbers = [a for a in node.args if not isinstance(a, (list, tuple))]
        if all(isinstance(n, int) and abs(n) <= _WORD for n in numbers):
            return max((abs(int(n)) for n in numbers), default=None)  # type: ignore[arg-type]
        return None
    if name.startswith(("aten::zeros", "aten::ones", "aten::new_zeros", "aten::new_ones")):
        return 1
    if name.startswith(_MOVING) and not _fractional(node):
        bounds = [largest(s, depth - 1) for s in node.all_input_nodes]
        known = [b for b in bounds if b is not None]
        return max(known) if known and len(known) == len(bounds) else None
    if name in ("aten::add.Tensor", "aten::sub.Tensor", "aten::mul.Tensor"):
        return _arithmetic(name, node, depth)
    return None


def _arithmetic(name: str, node: Node, depth: int) -> int | None:
    from torch.fx import Node

    if node.kwargs or len(node.args) != 2:  # noqa: PLR2004 - an operator of two
        return None
    bounds = []
    for side in node.args:
        bound = largest(side, depth - 1) if isinstance(side, Node) else side
        if not isinstance(bound, int):
            return None
        bounds.append(abs(bound))
    result = bounds[0] * bounds[1] if "mul" in name else sum(bounds)
    return result if result <= _WORD else None


def _fractional(node: Node) -> bool:
    return any(
        getattr(s.meta.get("val"), "is_floating_point", lambda: False)()
        for s in node.all_input_nodes
    )


def _sizes(node: Node) -> int | None:
    """The number of elements that positions in a node's first input stay below."""
    shape = node.all_input_nodes[0].meta["val"].shape
    total = 1
    for size in shape:
        if not isinstance(size, int):
            return None
        total *= size
    return total if total <= _WORD else None
