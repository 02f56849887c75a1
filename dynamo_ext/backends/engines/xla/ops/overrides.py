"""Lowerings of our own, for operators that torchax lacks or gets wrong."""

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch


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


def _in_float32(function: Callable[..., Any]) -> Callable[..., Any]:
    """Half precision computed in float32, as torch does; the result is converted to what it was."""

    def computed(x: Any, *rest: Any) -> Any:
        import jax.numpy as jnp

        wide = jnp.promote_types(x.dtype, jnp.float32)
        return function(*(v.astype(wide) if hasattr(v, "astype") else v for v in (x, *rest)))

    return computed


OWN: dict[str, Callable[..., Any]] = {
    "aten::convolution": _convolution,
    "aten::convolution_backward": _convolution_backward,
    "aten::_to_copy": _cast,
    "aten::sign": _sign,
    "aten::sort.stable": _sort,
    "aten::fmod.Tensor": _fmod,
    "aten::fmod.Scalar": _fmod,
    "aten::max_pool2d_with_indices": _max_pool2d,
    "aten::max_pool2d_with_indices_backward": _max_pool2d_backward,
}


GUARDS: dict[str, Callable[[Callable[..., Any]], Callable[..., Any]]] = {
    "aten::_native_batch_norm_legit_no_training": _in_float32,
    "aten::div.Tensor_mode": _truncating,
    "aten::div.Scalar_mode": _truncating,
}
"""What is put around functions of torchax."""
