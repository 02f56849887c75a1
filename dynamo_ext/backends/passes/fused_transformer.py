"""``torch.nn``'s fused transformer kernels as the operations that they compute.

In evaluation without gradients ``nn.TransformerEncoderLayer`` and ``nn.MultiheadAttention`` call
one kernel each, which no engine knows: a whole encoder would stay in eager. Their definitions are
``transformer_encoder_layer_forward`` (ATen/native/transformers/transformer.cpp) and
``native_multi_head_attention_cpu`` (attention.cpp).
"""

import functools
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from dynamo_ext.backends.torch_private.decompositions import Decompositions
from dynamo_ext.torch_private import fx_nodes

_ATTENTION = fx_nodes.overload("_native_multi_head_attention.default")
_LAYER = fx_nodes.overload("_transformer_encoder_layer_fwd.default")

_OVER_SOURCE, _OF_KEYS, _OVER_ALL = 0, 1, 2
"""Kinds of masks: (targets, sources); (batch, sources); (batch, heads, targets, sources)."""


def _attention(*args: Any, **kwargs: Any) -> Any:
    """Attention of a batch to itself: (batch, targets, embed) and the weights of its softmax."""
    of = SimpleNamespace(**fx_nodes.named(_ATTENTION, args, kwargs))
    query, mask = of.query, of.mask
    if not query.numel() or not _fits(mask, of.mask_type, query, of.num_head):
        return NotImplemented
    inputs = query, of.key, of.value
    projected = _projected(inputs, of.qkv_weight, of.qkv_bias, of.embed_dim)
    queries, keys, values = (
        torch.unflatten(each, -1, (of.num_head, -1)).transpose(1, 2) for each in projected
    )
    hidden = _hidden(mask, of.mask_type)
    if of.need_weights or hidden is not None:
        # Of a row without anything to see the kernel makes NaN, scaled_dot_product_attention 0.
        scores = queries @ keys.transpose(-2, -1) / math.sqrt(of.embed_dim // of.num_head)
        if hidden is not None:
            scores = scores.masked_fill(hidden, -math.inf)
        weights = scores.softmax(-1)
        mixed = weights @ values
        weights = weights.mean(1) if of.average_attn_weights else weights
    else:
        mixed = functional.scaled_dot_product_attention(queries, keys, values)
    if not of.need_weights:
        weights = query.new_empty(0)
    together = mixed.transpose(1, 2).flatten(-2)
    return functional.linear(together, of.proj_weight, of.proj_bias), weights


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


def _encoder_layer(*args: Any, **kwargs: Any) -> Any:
    """A layer of an encoder: (batch, length, embed) as it comes."""
    of = SimpleNamespace(**fx_nodes.named(_LAYER, args, kwargs))
    if not of.src.numel() or not _fits(of.mask, of.mask_type, of.src, of.num_heads):
        return NotImplemented

    norm = functools.partial(functional.layer_norm, normalized_shape=(of.embed_dim,), eps=of.eps)
    first = functools.partial(norm, weight=of.norm_weight_1, bias=of.norm_bias_1)
    second = functools.partial(norm, weight=of.norm_weight_2, bias=of.norm_bias_2)

    def attended(x: Tensor) -> Tensor:
        projections = of.qkv_weight, of.qkv_bias, of.proj_weight, of.proj_bias
        masked = of.mask, False, True, of.mask_type
        mixed: Tensor = _attention(x, x, x, of.embed_dim, of.num_heads, *projections, *masked)[0]
        return mixed

    def fed_forward(x: Tensor) -> Tensor:
        wide = functional.linear(x, of.ffn_weight_1, of.ffn_bias_1)
        # Of `_addmm_activation` on CUDA, which has cuBLAS do it, GELU is the approximate one.
        form = "tanh" if wide.is_cuda else "none"
        wide = functional.gelu(wide, approximate=form) if of.use_gelu else functional.relu(wide)
        return functional.linear(wide, of.ffn_weight_2, of.ffn_bias_2)

    if of.norm_first:
        x = of.src + attended(first(of.src))
        return x + fed_forward(second(x))
    x = first(of.src + attended(of.src))
    return second(x + fed_forward(x))


DECOMPOSITIONS: Decompositions = {_ATTENTION: _attention, _LAYER: _encoder_layer}
"""Both kernels' decompositions, by operator."""
