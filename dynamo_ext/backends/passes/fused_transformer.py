"""``torch.nn``'s fused transformer kernels as the operations that they compute.

In evaluation without gradients ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` call
one kernel each, which no engine knows: a whole encoder would stay in eager. Their definitions are
``transformer_encoder_layer_forward`` (ATen/native/transformers/transformer.cpp) and
``native_multi_head_attention_cpu`` (attention.cpp).
"""

import functools
import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dynamo_ext.backends.torch_private.decompositions import Decompositions

_OVER_SOURCE, _OF_KEYS, _OVER_ALL = 0, 1, 2
"""Kinds of masks: (targets, sources); (batch, sources); (batch, heads, targets, sources)."""


@functools.cache
def decompositions() -> Decompositions:
    """Both kernels' decompositions, by operator."""
    return {
        torch.ops.aten._native_multi_head_attention.default: _attention,  # noqa: SLF001 - ATen's name
        torch.ops.aten._transformer_encoder_layer_fwd.default: _encoder_layer,  # noqa: SLF001
    }


def _attention(  # noqa: PLR0913, PLR0917 - the kernel's own arguments
    query: Tensor,
    key: Tensor,
    value: Tensor,
    embed_dim: int,
    num_head: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    mask: Tensor | None = None,
    need_weights: bool = True,  # noqa: FBT001, FBT002
    average_attn_weights: bool = True,  # noqa: FBT001, FBT002
    mask_type: int | None = None,
) -> Any:
    """Attention of a batch to itself: (batch, targets, embed) and the weights of its softmax."""
    if not query.numel() or not _fits(mask, mask_type, query, num_head):
        return NotImplemented
    projected = _projected((query, key, value), qkv_weight, qkv_bias, embed_dim)
    queries, keys, values = (
        torch.unflatten(each, -1, (num_head, -1)).transpose(1, 2) for each in projected
    )
    hidden = _hidden(mask, mask_type)
    if need_weights or hidden is not None:
        # Of a row without anything to see the kernel makes NaN, scaled_dot_product_attention 0.
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(embed_dim // num_head)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1)
        mixed = weights @ values
        weights = weights.mean(1) if average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
    if not need_weights:
        weights = query.new_empty(0)
    together = mixed.transpose(1, 2).flatten(-2)
    return functional.linear(together, proj_weight, proj_bias), weights


def _projected(
    inputs: tuple[Tensor, Tensor, Tensor], weight: Tensor, bias: Tensor, width: int
) -> Sequence[Tensor]:
    """Queries, keys and values, each (batch, length, embed)."""
    query, key, value = inputs
    if query is key and key is value:
        return torch.split(functional.linear(query, weight, bias), width, -1)
    pairs = zip(inputs, torch.split(weight, width), torch.split(bias, width), strict=True)
    return [functional.linear(*each) for each in pairs]


def _fits(mask: Tensor | None, mask_type: int | None, query: Tensor, heads: int) -> bool:
    """Whether the kernel would not refuse a mask for its shape, which here would be broadcast."""
    if mask is None:
        return True
    batch, length = query.shape[:2]
    allowed = {
        _OVER_SOURCE: (length, length),
        _OF_KEYS: (batch, length),
        _OVER_ALL: (batch, heads, length, length),
    }
    return tuple(mask.shape) == allowed.get(-1 if mask_type is None else mask_type)


def _hidden(mask: Tensor | None, mask_type: int | None) -> Tensor | None:
    """Where the softmax sees nothing, in a form that scores (b, heads, t, s) broadcast with."""
    if mask is None:
        return None
    # The kernel itself makes booleans of a mask of floats.
    hidden = mask if mask.dtype == torch.bool else mask != 0
    return hidden[:, None, None, :] if mask_type == _OF_KEYS else hidden


def _encoder_layer(  # noqa: PLR0913, PLR0917 - the kernel's own arguments
    src: Tensor,
    embed_dim: int,
    num_heads: int,
    qkv_weight: Tensor,
    qkv_bias: Tensor,
    proj_weight: Tensor,
    proj_bias: Tensor,
    use_gelu: bool,  # noqa: FBT001
    norm_first: bool,  # noqa: FBT001
    eps: float,
    norm_weight_1: Tensor,
    norm_bias_1: Tensor,
    norm_weight_2: Tensor,
    norm_bias_2: Tensor,
    ffn_weight_1: Tensor,
    ffn_bias_1: Tensor,
    ffn_weight_2: Tensor,
    ffn_bias_2: Tensor,
    mask: Tensor | None = None,
    mask_type: int | None = None,
) -> Any:
    """A layer of an encoder: (batch, length, embed) as it comes."""
    if not src.numel() or not _fits(mask, mask_type, src, num_heads):
        return NotImplemented

    norm = functools.partial(functional.layer_norm, normalized_shape=(embed_dim,), eps=eps)
    first = functools.partial(norm, weight=norm_weight_1, bias=norm_bias_1)
    second = functools.partial(norm, weight=norm_weight_2, bias=norm_bias_2)

    def attended(x: Tensor) -> Tensor:
        of_attention = (qkv_weight, qkv_bias, proj_weight, proj_bias, mask, False, True, mask_type)
        mixed: Tensor = _attention(x, x, x, embed_dim, num_heads, *of_attention)[0]
        return mixed

    def fed_forward(x: Tensor) -> Tensor:
        wide = functional.linear(x, ffn_weight_1, ffn_bias_1)
        # Of `_addmm_activation` on CUDA, which has cuBLAS do it, GELU is the approximate one.
        form = "tanh" if wide.is_cuda else "none"
        wide = functional.gelu(wide, approximate=form) if use_gelu else functional.relu(wide)
        return functional.linear(wide, ffn_weight_2, ffn_bias_2)

    if norm_first:
        x = src + attended(first(src))
        return x + fed_forward(second(x))
    x = first(src + attended(src))
    return second(x + fed_forward(x))
