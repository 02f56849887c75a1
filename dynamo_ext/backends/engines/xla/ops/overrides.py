"""Lowerings of our own, for operators that torchax lacks or gets wrong."""

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


def _convolution(x: Any, weight: Any, bias: Any, *settings: Any) -> Any:
    """As ``aten::convolution``: ``x`` is (N, C, ...), ``weight`` as torch lays it out."""
    import jax
    import jax.numpy as jnp
    from jax import lax

    spatial = x.ndim - 2
    *windows, transposed, margins, groups = settings
    stride, padding, dilation, output_padding = (
        tuple(v) * (spatial if len(v) == 1 else 1) for v in (*windows, margins)
    )
    pads = [(p, p) for p in padding]
    order = "NC" + "DHW"[3 - spatial :], "OI" + "DHW"[3 - spatial :], "NC" + "DHW"[3 - spatial :]
    convolve = functools.partial(
        lax.conv_general_dilated, rhs=weight, window_strides=stride, padding=pads,
        rhs_dilation=dilation, dimension_numbers=order, feature_group_count=groups,
    )  # fmt: skip
    if transposed:
        facts = zip(
            x.shape[2:], stride, padding, dilation, weight.shape[2:], output_padding, strict=True
        )
        sizes = [(n - 1) * s - 2 * p + d * (k - 1) + o + 1 for n, s, p, d, k, o in facts]
        like = jnp.empty((len(x), weight.shape[1] * groups, *sizes), x.dtype)
        (result,) = jax.linear_transpose(convolve, like)(x)
    else:
        result = convolve(x)
    return result if bias is None else result + bias.reshape(-1, *(1,) * spatial)


def _convolution_backward(
    gradient: Any, x: Any, weight: Any, _: Any, *settings: Any
) -> tuple[Any, ...]:
    import jax

    *others, mask = settings
    _, pull = jax.vjp(lambda a, b: _convolution(a, b, None, *others), x, weight)
    sums = (*pull(gradient), gradient.sum(tuple({*range(gradient.ndim)} - {1})))
    return tuple(g if wanted else None for g, wanted in zip(sums, mask, strict=True))


_MOST_TAPS = 121
"""Elements of a pooling window up to which it is unrolled."""


def _max_pool2d(  # noqa: PLR0913, PLR0917 - ATen's own signature
    x: Any,
    kernel: Sequence[int],
    stride: Sequence[int] = (),
    padding: Sequence[int] = (0, 0),
    dilation: Sequence[int] = (1, 1),
    ceil_mode: bool = False,  # noqa: FBT001, FBT002
) -> tuple[Any, Any]:
    """Values and flat indices of the largest elements; of NaNs the last one, as torch has it."""
    import jax.numpy as jnp

    if math.prod(kernel) > _MOST_TAPS:
        message = f"A pooling window of {kernel[0]} by {kernel[1]} is too large to unroll"
        raise NotImplementedError(message)
    sizes, stride = x.shape[-2:], stride or kernel
    pool = torch.ops.aten.max_pool2d_with_indices.default
    like = torch.empty(x.shape, device="meta")
    counts = pool(like, kernel, stride, padding, dilation, ceil_mode)[0].shape[-2:]
    pads = [
        (p, max((c - 1) * s + (k - 1) * d + 1 - n - p, 0))
        for n, c, k, s, p, d in zip(sizes, counts, kernel, stride, padding, dilation, strict=True)
    ]
    lowest = -np.inf if jnp.issubdtype(x.dtype, jnp.floating) else np.iinfo(x.dtype).min
    padded = jnp.pad(x, [(0, 0)] * (x.ndim - 2) + pads, constant_values=lowest)
    indices = np.pad(np.arange(math.prod(sizes)).reshape(sizes), pads, constant_values=-1)
    best = jnp.full((*x.shape[:-2], *counts), lowest, x.dtype)
    place = jnp.full(best.shape, -1, jnp.int64)
    for tap in itertools.product(*map(range, kernel)):
        window = tuple(
            slice(t * d, t * d + (c - 1) * s + 1, s)
            for t, d, c, s in zip(tap, dilation, counts, stride, strict=True)
        )
        value, index = padded[(..., *window)], indices[window]
        # Where nothing is larger than the lowest value, torch names the first element.
        better = (index >= 0) & ((value > best) | jnp.isnan(value) | (place < 0))
        best, place = jnp.where(better, value, best), jnp.where(better, index, place)
    return best, place


def _max_pool2d_backward(gradient: Any, x: Any, *settings: Any) -> Any:
    """Each gradient added where its index says."""
    import jax.numpy as jnp

    planes, size = math.prod(x.shape[:-2]), math.prod(x.shape[-2:])
    indices = settings[-1].reshape(planes, -1)
    rows = jnp.arange(planes)[:, None]
    spread = jnp.zeros((planes, size), gradient.dtype)
    return spread.at[rows, indices].add(gradient.reshape(planes, -1)).reshape(x.shape)


def _cast(x: Any, *, dtype: Any = None, **_: Any) -> Any:
    """To another dtype; floats that no integer can hold become what an x86 processor makes them.

    C++ leaves that open, and XLA takes the nearest integer there is.
    """
    import jax.numpy as jnp

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


def _fmod(x: Any, y: Any) -> Any:
    import jax.numpy as jnp

    return jnp.fmod(x, y)


def _div(x: Any, y: Any, *, rounding_mode: str | None = None) -> Any:
    """Integers are divided as integers: torchax's floats have not all of them."""
    import jax.numpy as jnp

    if rounding_mode == "floor":
        return jnp.floor_divide(x, y)
    if rounding_mode == "trunc" and jnp.issubdtype(jnp.result_type(x, y), jnp.integer):
        return jnp.floor_divide(x - jnp.fmod(x, y), y)
    return x / y if rounding_mode is None else jnp.trunc(x / y)


OWN: dict[str, Callable[..., Any]] = {
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_to_copy": _cast,
    "aten::sign": _sign,
    "aten::sort.stable": _sort,
    **{f"aten::fmod.{kind}": _fmod for kind in ("Tensor", "Scalar")},
    **{f"aten::div.{kind}_mode": _div for kind in ("Tensor", "Scalar")},
    "aten::max_pool2d_with_indices": _max_pool2d,
    "aten::max_pool2d_with_indices_backward": _max_pool2d_backward,
}
