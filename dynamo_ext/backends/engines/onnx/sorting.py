"""Sorting as ONNX's ``TopK``: equal elements by their places, NaN above infinity.

The order of equal elements is ONNX's own rule. To ONNX Runtime NaN has no place among numbers, and
one in a row leaves the whole of it unsorted, so floating-point numbers are compared in a wider
type in which there is room above infinity.
"""

import math
from typing import Any

from dynamo_ext.backends.engines.onnx.recurrent import opset

_INT32, _INT64, _DOUBLE = 6, 7, 11
"""ONNX's numbers for types."""

_ABOVE = 2.0**200
"""Stands for infinity, so that infinity may stand for NaN; no narrower type has such a number."""


def sort(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    """``aten::sort.stable``."""
    del stable
    dim %= max(len(x.shape), 1)
    return _ordered(x, opset().Shape(x, start=dim, end=dim + 1), dim, largest=descending)


def topk(
    x: Any,
    k: Any,
    dim: int = -1,
    largest: bool = True,  # noqa: FBT001, FBT002 - ATen's own signature
    sorted: bool = True,  # noqa: A002, FBT001, FBT002, ARG001
) -> Any:
    """``aten::topk``."""
    count = [k] if isinstance(k, int) else opset().Reshape(k, [1])
    return _ordered(x, count, dim, largest=largest)


def _ordered(x: Any, count: Any, dim: int, *, largest: bool) -> Any:
    """The first so many in order along a dimension, and their places."""
    op = opset()
    if not x.shape:
        return op.Identity(x), op.Constant(value_int=0)
    keys = _keys(x)
    values, places = op.TopK(keys, count, axis=dim, largest=int(largest), sorted=1)
    return (values if keys is x else op.GatherElements(x, places, axis=dim)), places


def _keys(x: Any) -> Any:
    """Numbers that compare in ONNX Runtime as a tensor's elements do in torch."""
    import onnx_ir

    op = opset()
    if x.dtype in (_INT32, _INT64):
        return x
    if not x.dtype.is_floating_point():
        return op.Cast(x, to=_INT32)
    if x.dtype == _DOUBLE:
        message = "ONNX Runtime does not sort NaN, and float64 has no wider type."
        raise NotImplementedError(message)
    wide = op.Cast(x, to=_DOUBLE)

    def number(value: float) -> Any:
        return op.Constant(value=onnx_ir.tensor(value, onnx_ir.DataType.DOUBLE))

    return op.Where(op.IsNaN(wide), number(math.inf), op.Min(wide, number(_ABOVE)))
