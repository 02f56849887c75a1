"""What TVM must not be given, or cannot be, as far as shows without trying."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import tvm_convert

if TYPE_CHECKING:
    from collections.abc import Iterator

    import torch
    from torch.fx import Node


_UNTOLD = ("aten.empty", "aten.new_empty")


def _dtypes() -> frozenset[Any]:
    """Dtypes that our converters compute in.

    Not half precision: TVM's code for it on a CPU converts each element, and is slower than
    eager, which has instructions for it.
    """
    import torch

    whole = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool)
    return frozenset({torch.float32, torch.float64, *whole})


def objection(node: Node) -> str:
    """Why a node cannot be given to TVM, or nothing."""
    import torch

    name = str(node.target)
    if name.startswith(_UNTOLD):
        return "What it holds is anything at all."
    # What depends on no tensor is computed beforehand, by torch.
    if node.all_input_nodes and name not in tvm_convert.all_converters():
        return f"There is no converter to TVM for {node.target}."
    tensors = (*_results(node), *(s.meta.get("val") for s in node.all_input_nodes))
    found = (_unfit(tensor) for tensor in tensors if isinstance(tensor, torch.Tensor))
    return next(filter(None, found), "")


def _unfit(tensor: torch.Tensor) -> str:
    """Why a tensor cannot be TVM's, or nothing."""
    import torch

    if tensor.device.type != "cpu":
        return f"This TVM backend does not run on {tensor.device.type} devices."
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return "TVM takes dense tensors only."
    if tensor.dtype not in _dtypes():
        return f"TVM is not given {str(tensor.dtype).removeprefix('torch.')}."
    if any(isinstance(size, int) and size == 0 for size in tensor.shape):
        return "TVM is not given tensors without elements."
    return ""


def _results(node: Node) -> Iterator[Any]:
    value = node.meta.get("val")
    if isinstance(value, (tuple, list)):
        yield from (value[position] for position in _read(node))
    else:
        yield value


def _read(node: Node) -> list[int]:
    positions: list[Any] = [u.args[1] for u in node.users if u.target is operator.getitem]
    return sorted(set(positions))
