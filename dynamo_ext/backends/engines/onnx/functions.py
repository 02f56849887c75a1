"""ATen operators as ONNX, where torch.onnx lacks them, gets them wrong or does too much.

- GELU: from torch.onnx's own formula ONNX Runtime fuses nothing.
- Views of known sizes: from torch.onnx each size is a constant, which later passes join again.
- Sorting as ``TopK``: equal elements come by their places, which is ONNX's own rule, and NaN above
  infinity. To ONNX Runtime NaN has no place among numbers, and one in a row leaves the whole of it
  unsorted, so floating-point numbers are compared in a wider type in which there is room above
  infinity.
- The largest and the smallest of some elements, with NaN kept, which ONNX Runtime passes over.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

from dynamo_ext.backends.engines.onnx import recurrent
from dynamo_ext.backends.engines.onnx.recurrent import opset

_FLOAT, _INT32, _INT64, _DOUBLE = 1, 6, 7, 11
"""ONNX's numbers for types."""

_ABOVE = 2.0**200
"""Stands for infinity, so that infinity may stand for NaN; no narrower type has such a number."""


def _number(value: Any, dtype: Any) -> Any:
    """A number, or a list of them, as a constant of a type."""
    import onnx_ir

    return opset().Constant(value=onnx_ir.tensor(value, onnx_ir.DataType(dtype)))


def _gelu(x: Any, approximate: str = "none") -> Any:
    if approximate != "none":
        from onnxscript.function_libs.torch_lib.ops import nn

        return nn.aten_gelu(x, approximate)
    op = opset()
    erf = op.Erf(op.Div(x, _number(math.sqrt(2), x.dtype)))
    return op.Mul(op.Mul(x, _number(0.5, x.dtype)), op.Add(erf, _number(1.0, x.dtype)))


def _view(x: Any, size: Sequence[Any]) -> Any:
    return opset().Reshape(x, _shape(size), allowzero=True)


def _expand(x: Any, size: Sequence[Any], implicit: bool = False) -> Any:  # noqa: FBT001, FBT002 - ATen's own signature
    """One for ONNX is what ATen writes as minus one."""
    del implicit
    sizes = [1 if isinstance(each, int) and each == -1 else each for each in size]
    return opset().Expand(x, _shape(sizes))


def _shape(size: Sequence[Any]) -> Any:
    if size and all(isinstance(each, int) for each in size):
        return opset().Constant(value_ints=list(size))
    from onnxscript.function_libs.torch_lib.ops import common

    return common.merge_dims(size)


def _sort(x: Any, *, stable: Any = None, dim: int = -1, descending: bool = False) -> Any:
    del stable
    dim %= max(len(x.shape), 1)
    return _ordered(x, opset().Shape(x, start=dim, end=dim + 1), dim, largest=descending)


def _topk(
    x: Any,
    k: Any,
    dim: int = -1,
    largest: bool = True,  # noqa: FBT001, FBT002 - ATen's own signature
    sorted: bool = True,  # noqa: A002, FBT001, FBT002, ARG001
) -> Any:
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
    op = opset()
    if x.dtype in (_INT32, _INT64):
        return x
    if not x.dtype.is_floating_point():
        return op.Cast(x, to=_INT32)
    if x.dtype == _DOUBLE:
        message = "ONNX Runtime does not sort NaN, and float64 has no wider type."
        raise NotImplementedError(message)
    wide = op.Cast(x, to=_DOUBLE)
    below = op.Min(wide, _number(_ABOVE, _DOUBLE))
    return op.Where(op.IsNaN(wide), _number(math.inf, _DOUBLE), below)


def _kept(found: Any, sizes: Any, instead: Any = None) -> Any:
    """What was found, but ``instead``, or NaN, where the sum of some sizes is NaN.

    They are absolute values: infinities of both signs would add up to NaN.
    """
    op = opset()
    return op.Where(op.IsNaN(sizes), sizes if instead is None else instead, found)


def _sizes(x: Any, dims: Any, keepdims: int) -> Any:
    op = opset()
    return op.ReduceSum(op.Abs(x), dims, keepdims=keepdims)


def _extreme(reduction: str, x: Any, dim: Any = (), keepdim: Any = False) -> Any:  # noqa: FBT002 - ATen's own signature
    dims, keepdims = list(dim) or None, int(keepdim)
    found = getattr(opset(), reduction)(x, dims, keepdims=keepdims)
    return _kept(found, _sizes(x, dims, keepdims)) if x.dtype.is_floating_point() else found


def _place(reduction: str, x: Any, dim: Any = None, keepdim: Any = False) -> Any:  # noqa: FBT002 - ATen's own signature
    op, floats = opset(), x.dtype.is_floating_point()
    if not x.shape:
        return op.Constant(value_int=0)
    keepdims, ones = int(keepdim), [1] * len(x.shape)
    if dim is None:
        x, dim, keepdims = op.Reshape(x, [-1]), 0, 0
    found = getattr(op, reduction)(x, axis=dim, keepdims=keepdims)
    if floats:
        first = op.ArgMax(op.Cast(op.IsNaN(x), to=_FLOAT), axis=dim, keepdims=keepdims)
        found = _kept(found, _sizes(x, [dim], keepdims), first)
    return op.Reshape(found, ones) if keepdim and not keepdims else found


def _scattered(  # noqa: PLR0913, PLR0917 - ATen's own signature
    x: Any,
    dim: int,
    index: Any,
    src: Any,
    reduce: str,
    include_self: bool = True,  # noqa: FBT001, FBT002
) -> Any:
    from onnxscript.function_libs.torch_lib.ops import core

    if reduce not in ("amax", "amin") or not x.dtype.is_floating_point():
        return core.aten_scatter_reduce(x, dim, index, src, reduce, include_self)
    if not x.shape:
        message = "ONNX scatters into a tensor of some dimension."
        raise NotImplementedError(message)
    op = opset()
    scatter = functools.partial(op.ScatterElements, axis=dim)

    def filled(number: float, like: Any) -> Any:
        return op.Expand(_number([number], x.dtype), op.Shape(like))

    sizes = op.Abs(x) if include_self else filled(0.0, x)
    if not include_self:
        # What any element of the source replaces; torch.onnx takes the least finite number.
        x = scatter(x, index, filled(-math.inf if reduce == "amax" else math.inf, index))
    found = scatter(x, index, src, reduction=reduce[1:])
    return _kept(found, scatter(sizes, index, op.Abs(src), reduction="add"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "mkldnn_rnn_layer.default": recurrent.layer,
    "gelu.default": _gelu,
    "view.default": _view,
    "_unsafe_view.default": _view,
    "expand.default": _expand,
    "sort.stable": _sort,
    "topk.default": _topk,
    "amax.default": functools.partial(_extreme, "ReduceMax"),
    "amin.default": functools.partial(_extreme, "ReduceMin"),
    "argmax.default": functools.partial(_place, "ArgMax"),
    "argmin.default": functools.partial(_place, "ArgMin"),
    "scatter_reduce.two": _scattered,
}
"""The conversions by the names of ATen's overloads."""
