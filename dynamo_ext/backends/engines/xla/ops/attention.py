"""Attention as torch keeps it whole for training: both directions of the CPU's flash kernel."""

import math
from collections.abc import Callable
from typing import Any


def _scores(q: Any, k: Any, mask: Any, scale: float | None, *, causal: bool) -> tuple[Any, float]:
    """Attention's scores in float32 at least, and the scale."""
    import jax.numpy as jnp

    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    wide = jnp.promote_types(q.dtype, jnp.float32)
    scores = jnp.einsum("bhld,bhsd->bhls", q.astype(wide), k.astype(wide)) * scale
    if causal:
        scores = jnp.where(
            jnp.tri(scores.shape[-2], scores.shape[-1], dtype=bool), scores, -jnp.inf
        )
    if mask is not None:
        allowed = mask.dtype == jnp.bool_
        scores = jnp.where(mask, scores, -jnp.inf) if allowed else scores + mask.astype(wide)
    return scores, scale


def _attention(  # noqa: PLR0913 - ATen's own signature
    q: Any,
    k: Any,
    v: Any,
    dropout_p: float = 0.0,
    is_causal: bool = False,  # noqa: FBT001, FBT002
    *,
    attn_mask: Any = None,
    scale: float | None = None,
) -> tuple[Any, Any]:
    """Output, and the logarithm of each row's sum of exponentials."""
    import jax
    import jax.numpy as jnp

    _no_dropout(dropout_p)
    scores, _ = _scores(q, k, attn_mask, scale, causal=is_causal)
    sums = jax.nn.logsumexp(scores, axis=-1)
    # A row with nothing to look at has no sum; torch's kernel makes its result zero.
    weights = jnp.where(jnp.isneginf(sums)[..., None], 0, jnp.exp(scores - sums[..., None]))
    output = jnp.einsum("bhls,bhsd->bhld", weights, v.astype(scores.dtype))
    return output.astype(q.dtype), sums


def _attention_backward(
    gradient: Any, q: Any, k: Any, v: Any, *given: Any, **options: Any
) -> tuple[Any, Any, Any]:
    import jax.numpy as jnp

    out, sums, dropout_p, causal = given
    mask, scale = options.get("attn_mask"), options.get("scale")
    _no_dropout(dropout_p)
    scores, scale = _scores(q, k, mask, scale, causal=causal)
    weights = jnp.exp(scores - sums[..., None])
    dtype = q.dtype
    gradient, out, q, k, v = (t.astype(scores.dtype) for t in (gradient, out, q, k, v))
    through = jnp.einsum("bhld,bhsd->bhls", gradient, v)
    inner = weights * (through - (gradient * out).sum(-1, keepdims=True)) * scale
    return (
        jnp.einsum("bhls,bhsd->bhld", inner, k).astype(dtype),
        jnp.einsum("bhls,bhld->bhsd", inner, q).astype(dtype),
        jnp.einsum("bhls,bhld->bhsd", weights, gradient).astype(dtype),
    )


def _no_dropout(probability: float) -> None:
    if probability:
        message = "Dropout inside attention stays with torch's generator"
        raise NotImplementedError(message)


OWN: dict[str, Callable[..., Any]] = {
    "aten::_scaled_dot_product_flash_attention_for_cpu": _attention,
    "aten::_scaled_dot_product_flash_attention_for_cpu_backward": _attention_backward,
}
