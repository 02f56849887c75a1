"""torch.nn's fused transformer kernels cut up: the same numbers, and engines that take them."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

import dynamo_ext
from benchmarks.backends import without
from dynamo_ext.backends import registry
from dynamo_ext.backends.passes import fused_transformer

BATCH, LENGTH, WIDTH, HEADS = 3, 5, 16, 4
LATER = torch.ones(LENGTH, LENGTH, dtype=torch.bool).triu(1)
PADDED = torch.zeros(BATCH, LENGTH, dtype=torch.bool)
PADDED[0, 3:] = True
NOTHING = PADDED.clone()
NOTHING[1] = True
"""Of the second in the batch there is nothing to see."""


@pytest.fixture
def fused(monkeypatch):
    """Calls of the kernels, each checked against its decomposition."""
    seen = []
    kernels = {
        "_native_multi_head_attention": torch.ops.aten._native_multi_head_attention.default,
        "_transformer_encoder_layer_fwd": torch.ops.aten._transformer_encoder_layer_fwd.default,
    }

    def checked(kernel):
        def call(*args):
            found = kernel(*args)
            ours = fused_transformer.DECOMPOSITIONS[kernel](*args)
            pairs = [(ours, found)] if isinstance(found, torch.Tensor) else zip(ours, found)  # noqa: B905 - of one length
            for mine, theirs in pairs:
                if theirs is not None:
                    torch.testing.assert_close(mine, theirs, equal_nan=True)
            seen.append(kernel)
            return found

        return call

    for name, kernel in kernels.items():
        monkeypatch.setattr(torch, name, checked(kernel))
    return seen


def batch():
    return torch.randn(BATCH, LENGTH, WIDTH)


@pytest.mark.filterwarnings("ignore:Converting mask without torch.bool")
@pytest.mark.parametrize(
    "masks",
    [
        {},
        {"src_mask": LATER},
        {"src_mask": torch.zeros(LENGTH, LENGTH).masked_fill(LATER, -math.inf)},
        {"src_key_padding_mask": PADDED},
        {"src_key_padding_mask": NOTHING},
        {"src_mask": LATER, "src_key_padding_mask": PADDED},
    ],
    ids=["none", "later", "later as floats", "padding", "nothing seen", "both"],
)
@pytest.mark.parametrize("form", [{}, {"norm_first": True}, {"activation": "gelu"}], ids=str)
def test_an_encoder_layer_is_what_its_kernel_computes(fused, masks, form):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True, **form).eval()
    with torch.no_grad():
        layer(batch(), **masks)
    assert len(fused) == 1


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"attn_mask": LATER},
        {"key_padding_mask": PADDED},
        {"key_padding_mask": NOTHING},
        {"attn_mask": LATER, "key_padding_mask": PADDED},
        {"attn_mask": LATER.repeat(BATCH * HEADS, 1, 1)},
        {"need_weights": False},
        {"average_attn_weights": False},
    ],
    ids=[
        "none",
        "later",
        "padding",
        "nothing seen",
        "both",
        "by head",
        "no weights",
        "all weights",
    ],
)
def test_attention_is_what_its_kernel_computes(fused, given):
    attention = nn.MultiheadAttention(WIDTH, HEADS, batch_first=True).eval()
    x = batch()
    with torch.no_grad():
        attention(x, x, x, **given)
    assert len(fused) == 1


BAD = {
    "by batch": {"src_mask": torch.zeros(BATCH, LENGTH, LENGTH, dtype=torch.bool)},
    "one row": {"src_key_padding_mask": PADDED[:1]},
    "one key": {"src_key_padding_mask": PADDED[:, :1]},
}


@pytest.mark.parametrize("masks", BAD.values(), ids=BAD)
def test_a_mask_that_the_kernel_refuses_is_refused(masks):
    pytest.importorskip("onnxruntime")
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True).eval()
    fast = dynamo_ext.optimize("onnxrt")(layer)
    with torch.no_grad():
        with pytest.raises(RuntimeError):
            layer(batch(), **masks)
        with pytest.raises(RuntimeError):
            fast(batch(), **masks)


@pytest.mark.parametrize("inside", [False, True])
def test_autocast_reaches_into_the_kernel(inside):
    pytest.importorskip("onnxruntime")
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True).eval()
    x = batch()

    def call(x):
        with torch.autocast("cpu", torch.bfloat16, enabled=inside):
            return layer(x)

    fast = dynamo_ext.optimize("onnxrt")(call)
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16, enabled=not inside):
        if not inside:
            expected, found = layer(x), dynamo_ext.optimize("onnxrt")(layer)(x)
        else:
            expected, found = call(x), fast(x)
    assert expected.dtype == found.dtype == torch.bfloat16
    torch.testing.assert_close(found, expected, rtol=3e-2, atol=3e-2)


@pytest.mark.parametrize("engine", without("ts", "ofi"))
@pytest.mark.parametrize("mask", [None, LATER], ids=["no mask", "later"])
def test_engines_take_an_encoder_whole(engine, mask):
    if not registry.probe(registry.get(engine)).available:
        pytest.skip(f"{engine} does not run here")
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 32, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    x = batch()
    with torch.no_grad():
        expected = encoder(x, mask, is_causal=False)
        fast = dynamo_ext.optimize(engine)(encoder)
        torch.testing.assert_close(fast(x, mask, is_causal=False), expected, rtol=1e-4, atol=1e-5)
    report = fast.report()
    assert not report.fallbacks
    assert {part.engine for graph in report.graphs for part in graph.partitions} == {engine}
    operators = {t for g in report.graphs for part in g.partitions for t in part.targets}
    assert not any("transformer_encoder" in operator for operator in operators)
