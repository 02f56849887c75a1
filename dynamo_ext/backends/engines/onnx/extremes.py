"""The largest and the smallest of some elements, with NaN kept, which ONNX Runtime passes over."""

import functools
import math
from collections.abc import Callable
from typing import Any

from dynamo_ext.backends.engines.onnx.recurrent import opset

_FLOAT = 1
"""ONNX's number for float32."""


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
    import onnx_ir

    op = opset()
    scatter = functools.partial(op.ScatterElements, axis=dim)

    def filled(number: float, like: Any) -> Any:
        value = onnx_ir.tensor([number], x.dtype)
        return op.Expand(op.Constant(value=value), op.Shape(like))

    sizes = op.Abs(x) if include_self else filled(0.0, x)
    if not include_self:
        # What any element of the source replaces; torch.onnx takes the least finite number.
        x = scatter(x, index, filled(-math.inf if reduce == "amax" else math.inf, index))
    found = scatter(x, index, src, reduction=reduce[1:])
    return _kept(found, scatter(sizes, index, op.Abs(src), reduction="add"))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "amax.default": functools.partial(_extreme, "ReduceMax"),
    "amin.default": functools.partial(_extreme, "ReduceMin"),
    "argmax.default": functools.partial(_place, "ArgMax"),
    "argmin.default": functools.partial(_place, "ArgMin"),
    "scatter_reduce.two": _scattered,
}
"""The conversions by the names of ATen's overloads."""
