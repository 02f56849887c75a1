"""The largest and the smallest of some elements, and their places, with NaN and infinity kept.

Each takes ``torch.ops.aten`` and what the operator takes, nodes as proxies.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch


def _kept(aten: Any, found: Any, *sizes: Any) -> Any:
    """What was found, but the sizes where these are NaN."""
    for size in sizes:
        found = aten.where.self(aten.ne.Tensor(size, size), size, found)
    return found


def _extreme(name: str, aten: Any, x: Any, dims: Any = (), keepdim: Any = False) -> Any:  # noqa: FBT002 - ATen's own signature
    dims = list(dims) or list(range(x.node.meta["val"].ndim))
    # Its reductions begin with the largest finite number, which is half of none.
    half = getattr(aten, name).default(aten.mul.Scalar(x, 0.5), dims, keepdim)
    beyond = aten.lt.Scalar(half, -2e38) if name == "amax" else aten.gt.Scalar(half, 2e38)
    infinite, whole = aten.mul.Scalar(half, math.inf), aten.mul.Scalar(half, 2.0)
    found = aten.where.self(beyond, infinite, whole)
    # Magnitudes: infinities of both signs would add up to NaN.
    return _kept(aten, found, aten.sum.dim_IntList(aten.abs.default(x), dims, keepdim))


def _place(name: str, aten: Any, x: Any, dim: Any = None, keepdim: Any = False) -> Any:  # noqa: FBT002 - ATen's own signature
    # The first of equal elements, which its own operation does not promise.
    shape = list(x.node.meta["val"].shape)
    flat = dim is None or not shape
    given, at = (aten.view.default(x, [math.prod(shape)]), 0) if flat else (x, dim % len(shape))
    size = math.prod(shape) if flat else shape[at]
    given.node.meta.setdefault("val", x.node.meta["val"].reshape(-1) if flat else None)
    end = _extreme(name, aten, given, [at], True)  # noqa: FBT003 - ATen's own
    hit = aten.bitwise_or.Tensor(aten.eq.Tensor(given, end), aten.ne.Tensor(given, given))
    create = functools.partial(x.tracer.create_proxy, "call_function")
    numbers = create(aten.arange.default, (size,), {"dtype": torch.int32})
    numbers = aten.view.default(numbers, [size] + [1] * (0 if flat else len(shape) - at - 1))
    none = create(aten.full.default, ([], size), {"dtype": torch.int32})
    ranks = aten.where.self(hit, numbers, none)
    first = aten.amin.default(ranks, [at], keepdim and not flat)
    if flat and keepdim:
        first = aten.view.default(first, [1] * len(shape))
    return aten._to_copy.default(first, dtype=torch.int64)  # noqa: SLF001 - an operator


def _of_two(name: str, aten: Any, x: Any, y: Any) -> Any:
    return _kept(aten, getattr(aten, name).default(x, y), x, y)


def _greater(less: str, aten: Any, x: Any, y: Any) -> Any:
    # Greater than NaN is anything to it, and less than NaN is nothing, as to torch.
    if isinstance(y, (int, float)):
        dtype = torch.result_type(torch.empty((1,), dtype=x.node.meta["val"].dtype), y)
        full = aten.full.default
        y = x.tracer.create_proxy("call_function", full, ([], y), {"dtype": dtype})
    return getattr(aten, less).Tensor(y, x)


REWRITTEN: dict[str, Callable[..., Any]] = {
    "aten::amax": functools.partial(_extreme, "amax"),
    "aten::amin": functools.partial(_extreme, "amin"),
    "aten::argmax": functools.partial(_place, "amax"),
    "aten::argmin": functools.partial(_place, "amin"),
    **{f"aten::ge.{kind}": functools.partial(_greater, "le") for kind in ("Scalar", "Tensor")},
    **{f"aten::gt.{kind}": functools.partial(_greater, "lt") for kind in ("Scalar", "Tensor")},
    "aten::maximum": functools.partial(_of_two, "maximum"),
    "aten::minimum": functools.partial(_of_two, "minimum"),
}
