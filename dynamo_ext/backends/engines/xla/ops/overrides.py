"""Lowerings of our own, for operators that torchax lacks or gets wrong."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.engines.xla.ops.indexing import require

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def _convolution(x: Any, weight: Any, bias: Any, *settings: Any) -> Any:
    """As ``aten::convolution``: ``x`` is (N, C, ...), ``weight`` as torch lays it out."""
    from jax import lax

    spatial = x.ndim - 2
    *windows, transposed, margins, groups = settings
    stride, padding, dilation, output_padding = (
        tuple(v) * (spatial if len(v) == 1 else 1) for v in (*windows, margins)
    )
    pads = [(p, p) for p in padding]
    window, spread = tuple(stride), (1,) * spatial
    if transposed:
        window, spread = spread, window
        reach = [d * (k - 1) for d, k in zip(dilation, weight.shape[2:], strict=True)]
        pads = [(r - p, r - p + o) for r, p, o in zip(reach, padding, output_padding, strict=True)]
        weight = _turned(weight, groups)
    order = "NC" + "DHW"[3 - spatial :], "OI" + "DHW"[3 - spatial :], "NC" + "DHW"[3 - spatial :]
    result = lax.conv_general_dilated(
        x, weight, window, pads, spread, tuple(dilation), order, groups
    )
    return result if bias is None else result + bias.reshape(-1, *(1,) * spatial)


def _turned(weight: Any, groups: int) -> Any:
    """A transposed convolution's weight as that of the convolution that computes the same."""
    import jax.numpy as jnp

    inputs, outputs, *kernel = weight.shape
    weight = jnp.flip(weight, tuple(range(2, weight.ndim)))
    weight = weight.reshape(groups, inputs // groups, outputs, *kernel).swapaxes(1, 2)
    return weight.reshape(groups * outputs, inputs // groups, *kernel)


def _convolution_backward(
    gradient: Any, x: Any, weight: Any, _: Any, *settings: Any
) -> tuple[Any, ...]:
    import jax

    *others, mask = settings
    _, pull = jax.vjp(lambda a, b: _convolution(a, b, None, *others), x, weight)
    sums = (*pull(gradient), gradient.sum(tuple({*range(gradient.ndim)} - {1})))
    return tuple(g if wanted else None for g, wanted in zip(sums, mask, strict=True))


def _pair(value: Any) -> tuple[int, int]:
    return tuple(value) * (2 if len(value) == 1 else 1)


_MOST_TAPS = 121
"""Elements of a pooling window up to which it is unrolled."""


def _max_pool2d(  # noqa: PLR0913, PLR0917 - ATen's own signature
    x: Any,
    kernel_size: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0,),
    dilation: Sequence[int] = (1,),
    ceil_mode: bool = False,  # noqa: FBT001, FBT002
) -> tuple[Any, Any]:
    """Values and flat indices of the largest elements; of NaNs the last one, as torch has it."""
    import jax.numpy as jnp
    import numpy as np
    from jax import lax

    kernel, padding, dilation = _pair(kernel_size), _pair(padding), _pair(dilation)
    stride = _pair(stride) if stride else kernel
    if math.prod(kernel) > _MOST_TAPS:
        message = f"A pooling window of {kernel[0]} by {kernel[1]} is too large to unroll"
        raise NotImplementedError(message)
    sizes = x.shape[-2:]
    counts = tuple(
        _windows(*facts, ceil_mode=ceil_mode)
        for facts in zip(sizes, kernel, stride, padding, dilation, strict=True)
    )
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    low = jnp.array(lowest, x.dtype)
    reach = [
        (c - 1) * s + (k - 1) * d + 1
        for c, s, k, d in zip(counts, stride, kernel, dilation, strict=True)
    ]
    pads = [(p, max(r - n - p, 0), 0) for r, n, p in zip(reach, sizes, padding, strict=True)]
    padded = lax.pad(x, low, [(0, 0, 0)] * (x.ndim - 2) + pads)
    rows, columns = (
        np.arange(c)[:, None] * s - p + np.arange(k) * d
        for c, s, p, k, d in zip(counts, stride, padding, kernel, dilation, strict=True)
    )
    best: Any = None
    place: Any = None
    for i, j in itertools.product(*map(range, kernel)):
        start = (i * dilation[0], j * dilation[1])
        lead = [slice(None)] * (x.ndim - 2)
        window = [
            slice(f, f + (c - 1) * s + 1, s) for f, c, s in zip(start, counts, stride, strict=True)
        ]
        value = padded[(*lead, *window)]
        row, column = rows[:, i][:, None], columns[:, j][None]
        inside = (row >= 0) & (row < sizes[0]) & (column >= 0) & (column < sizes[1])
        index = np.where(inside, row * sizes[1] + column, -1)
        if best is None:
            best, place = jnp.full_like(value, low), jnp.full(value.shape, -1, jnp.int64)
        # Where nothing is larger than the lowest value, torch names the first element.
        better = inside & ((value > best) | (value != value) | (place < 0))  # noqa: PLR0124 - NaN
        best, place = jnp.where(better, value, best), jnp.where(better, index, place)
    return best, place


def _windows(  # noqa: PLR0913 - one for each of a dimension's settings
    size: int, kernel: int, stride: int, padding: int, dilation: int, *, ceil_mode: bool
) -> int:
    room = size + 2 * padding - dilation * (kernel - 1) - 1
    count = (room + (stride - 1 if ceil_mode else 0)) // stride + 1
    # A window must start inside the input or its left padding.
    return count - (1 if ceil_mode and (count - 1) * stride >= size + padding else 0)


def _max_pool2d_backward(gradient: Any, x: Any, *settings: Any) -> Any:
    """Each gradient added where its index says."""
    import jax.numpy as jnp

    planes, size = math.prod(x.shape[:-2]), math.prod(x.shape[-2:])
    indices = settings[-1].reshape(planes, -1)
    require((indices >= 0) & (indices < size))
    rows = jnp.arange(planes)[:, None]
    spread = jnp.zeros((planes, size), gradient.dtype)
    return spread.at[rows, indices].add(gradient.reshape(planes, -1)).reshape(x.shape)


def _batch_norm(  # noqa: PLR0913, PLR0917 - ATen's own signature
    x: Any, weight: Any, bias: Any, mean: Any, variance: Any, momentum: float, eps: float
) -> tuple[Any, Any, Any]:
    """Normalised by known statistics; batch statistics are empty, as torch's are."""
    import jax.numpy as jnp

    del momentum
    spread = (-1, *(1,) * (x.ndim - 2))
    wide = jnp.promote_types(x.dtype, jnp.float32)
    factor = 1 / jnp.sqrt(variance.astype(wide) + eps)
    if weight is not None:
        factor = factor * weight.astype(wide)
    result = (x.astype(wide) - mean.reshape(spread)) * factor.reshape(spread)
    if bias is not None:
        result = result + bias.reshape(spread)
    return result.astype(x.dtype), jnp.zeros((0,), wide), jnp.zeros((0,), wide)


def _cast(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """To another dtype; floats that no integer can hold become what an x86 processor makes them.

    C++ leaves that open, and XLA takes the nearest integer there is.
    """
    import jax.numpy as jnp
    import numpy as np
    import torch

    if dtype is None or dtype is torch.bool:
        return x if dtype is None else x != 0
    wanted = jnp.dtype(str(dtype).removeprefix("torch."))
    if not jnp.issubdtype(x.dtype, jnp.floating) or not jnp.issubdtype(wanted, jnp.integer):
        return x.astype(wanted)
    held = jnp.int32 if wanted == jnp.int32 else jnp.int64
    least = np.iinfo(held).min
    limit = -float(least)
    fits = (x >= -limit) & (x < limit)
    return jnp.where(fits, x.astype(held), least).astype(wanted)


def _sign(x: Any) -> Any:
    """Of NaN it is zero, as torch has it."""
    import jax.numpy as jnp

    return jnp.where(x != x, 0, jnp.sign(x))  # noqa: PLR0124 - NaN


def _sort(
    x: Any,
    dim: int = -1,
    descending: bool = False,  # noqa: FBT001, FBT002 - ATen's own signature
    *,
    stable: bool | None = None,
) -> tuple[Any, Any]:
    """Values and indices; equal ones keep their order, as ``ties`` asks of all engines."""
    import jax.numpy as jnp

    del stable
    if not x.ndim:
        return x, jnp.zeros((), jnp.int64)
    order = jnp.argsort(x, axis=dim, stable=True, descending=descending)
    return jnp.take_along_axis(x, order, axis=dim), order


def _alike(x: Any, y: Any) -> list[Any]:
    """Both as arrays of one dtype and shape, as ``jax.lax`` wants them."""
    import jax.numpy as jnp

    kind = jnp.result_type(x, y)
    return jnp.broadcast_arrays(jnp.asarray(x, kind), jnp.asarray(y, kind))


def _fmod(x: Any, y: Any) -> Any:
    from jax import lax

    return lax.rem(*_alike(x, y))


def _truncating(function: Callable[..., Any]) -> Callable[..., Any]:
    """Integers divided towards zero as integers: torchax's floats have not all of them."""

    def divided(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
        import jax.numpy as jnp
        from jax import lax

        if rounding_mode == "trunc" and jnp.issubdtype(jnp.result_type(x, y), jnp.integer):
            return lax.div(*_alike(x, y))
        return function(x, y, rounding_mode=rounding_mode)

    return divided


def _divisor_checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Integers divided by zero: torch raises, XLA gives some number."""

    def checked(x: Any, y: Any, *rest: Any, **options: Any) -> Any:
        import jax.numpy as jnp

        kinds = [jnp.asarray(v).dtype for v in (x, y)]
        if not any(jnp.issubdtype(kind, jnp.inexact) for kind in kinds):
            require(jnp.asarray(y) != 0)
        return function(x, y, *rest, **options)

    return checked


OWN: dict[str, Callable[..., Any]] = {
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_native_batch_norm_legit_no_training": _batch_norm,
    "aten::_to_copy": _cast,
    "aten::sign": _sign,
    "aten::sort": _sort,
    "aten::sort.stable": _sort,
    "aten::fmod.Tensor": _divisor_checked(_fmod),
    "aten::fmod.Scalar": _divisor_checked(_fmod),
    "aten::max_pool2d_with_indices": _max_pool2d,
    "aten::max_pool2d_with_indices_backward": _max_pool2d_backward,
}


GUARDS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = dict.fromkeys(
    (
        "aten::floor_divide",
        "aten::floor_divide.Scalar",
        "aten::remainder.Tensor",
        "aten::remainder.Scalar",
        "aten::remainder.Scalar_Tensor",
    ),
    _divisor_checked,
) | dict.fromkeys(
    ("aten::div.Tensor_mode", "aten::div.Scalar_mode"),
    lambda function: _divisor_checked(_truncating(function)),
)
