"""Operations written so that OpenVINO hands on NaN as torch does, and lives.

Each takes ``torch.ops.aten`` and what the operator takes, nodes as ``torch.fx.Proxy``; it gives
the operator's only result or the first one.
"""

import functools
import math
from collections.abc import Callable
from typing import Any

import torch

from dynamo_ext.backends.engines.openvino import extremes


def _clamp(aten: Any, x: Any, low: Any = None, high: Any = None) -> Any:
    # By maxima alone: a minimum of a maximum would become one that loses NaN.
    if low is None:
        return aten.minimum.default(_number(high, x), x)
    least = aten.maximum.default(_number(low, x), x)
    if high is None:
        return least
    return aten.neg.default(aten.maximum.default(_number(-high, x), aten.neg.default(least)))


def _exp(aten: Any, x: Any) -> Any:
    # Its exponential of NaN is infinite, as from 88.4 on, where torch's is from 88.73 on.
    root = aten.exp.default(aten.mul.Scalar(x, 0.5))
    return aten.where.self(aten.ne.Tensor(x, x), x, aten.mul.Tensor(root, root))


def _softplus(aten: Any, x: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    # Its FX frontend has none, and its logarithm near 1 is off by 2e-6: below zero, at times.
    scaled = aten.mul.Scalar(x, beta)
    power = aten.exp.default(scaled)
    series = aten.rsub.Scalar(aten.mul.Scalar(power, 1 / 4), 1 / 3)
    for factor in (1 / 2, 1.0):
        series = aten.rsub.Scalar(aten.mul.Tensor(power, series), factor)
    small = aten.mul.Tensor(power, series)
    large = aten.log.default(aten.add.Scalar(power, 1.0))
    found = aten.where.self(aten.lt.Scalar(power, 0.03), small, large)
    # Beyond 30 it is its argument, in float32, and beyond 88 the exponential is infinite.
    least = aten.le.Scalar(scaled, min(threshold, 30.0))
    return aten.where.self(least, aten.div.Scalar(found, beta), x)


def _softmax(name: str, aten: Any, x: Any, dim: int, *rest: Any) -> Any:
    # Its softmax leaves NaN where it stands, and torch's spreads it along the dimension.
    found = getattr(aten, name).default(x, dim, *rest)
    total = aten.sum.dim_IntList(found, [dim], True)  # noqa: FBT003 - ATen's own signature
    return aten.where.self(aten.ne.Tensor(total, total), _number(math.nan, x), found)


def _max_pool(aten: Any, x: Any, *window: Any) -> Any:
    # The places of NaN are pooled as well, for its maximum passes them over.
    pool = aten.max_pool2d_with_indices.default
    lost = aten._to_copy.default(aten.ne.Tensor(x, x), dtype=_dtype(x))  # noqa: SLF001
    found = aten.gt.Scalar(pool(lost, *window)[0], 0.5)
    return aten.where.self(found, _number(math.nan, x), pool(x, *window)[0])


def _group_norm(  # noqa: PLR0913, PLR0917 - ATen's own signature
    aten: Any,
    x: Any,
    weight: Any,
    bias: Any,
    count: int,
    channels: int,
    length: int,
    groups: int,
    eps: float,
) -> Any:
    # As rows, which is as fast. OpenVINO 2026.4 has an operation for it, and a null pointer
    # where that and a computed tensor are the operands of another one: ``compile_model`` ends
    # the process.
    shape = x.node.meta["val"].shape
    rows = [count, groups, channels * length // groups]
    grouped = aten.view.default(x, rows)
    normed = aten.native_layer_norm.default(grouped, rows[-1:], None, None, eps)[0]
    found = aten.view.default(normed, list(shape))
    along = [channels, *[1] * (len(shape) - 2)]
    for scale, by in ((aten.mul.Tensor, weight), (aten.add.Tensor, bias)):
        if by is not None:
            found = scale(found, aten.view.default(by, along))
    return found


def _view(aten: Any, x: Any, shape: list[int]) -> Any:
    # Reshaping a product of matrices to no dimension ends the process.
    dims = list(range(x.node.meta["val"].ndim))
    return aten.view.default(x, shape) if shape else aten.squeeze.dims(x, dims)


def _number(number: float, like: Any) -> Any:
    """A number as a tensor without dimensions, of the dtype of another."""
    full = torch.ops.aten.full.default
    return like.tracer.create_proxy(
        "call_function", full, ([], float(number)), {"dtype": _dtype(like)}
    )


def _dtype(value: Any) -> torch.dtype:
    dtype: torch.dtype = value.node.meta["val"].dtype
    return dtype


REWRITTEN: dict[str, Callable[..., Any]] = {
    **extremes.REWRITTEN,
    # Of its Maximum's operands the second is the result where either is NaN.
    "aten::relu": lambda aten, x: aten.maximum.default(_number(0, x), x),
    "aten::clamp": _clamp,
    "aten::hardtanh": lambda aten, x, low=-1.0, high=1.0: _clamp(aten, x, low, high),
    "aten::exp": _exp,
    "aten::softplus": _softplus,
    "aten::_softmax": functools.partial(_softmax, "_softmax"),
    "aten::_log_softmax": functools.partial(_softmax, "_log_softmax"),
    "aten::max_pool2d_with_indices": _max_pool,
    "aten::native_group_norm": _group_norm,
    "aten::view": _view,
}
