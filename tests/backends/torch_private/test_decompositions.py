"""Attention's kernels of a GPU, and adaptive pooling, as operations that engines have."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

import dynamo_ext
from dynamo_ext.backends import registry
from dynamo_ext.backends.torch_private.decompositions import gpu_attention
from dynamo_ext.errors import FallbackWarning

ATEN = torch.ops.aten
Q, K, V = torch.randn(3, 2, 4, 5, 8).unbind()
BIAS = torch.randn(2, 4, 5, 5)
KERNELS = {
    "efficient": (ATEN._scaled_dot_product_efficient_attention.default, (BIAS, False), BIAS),
    "flash": (ATEN._scaled_dot_product_flash_attention.default, (), None),
    "cudnn": (ATEN._scaled_dot_product_cudnn_attention.default, (BIAS, False), BIAS),
}


@pytest.mark.parametrize("name", KERNELS)
def test_a_kernel_s_output_and_as_many_results_as_it_has(name: str) -> None:
    kernel, given, mask = KERNELS[name]
    decomposed = gpu_attention()[kernel]
    found = decomposed(Q, K, V, *given, scale=0.3)
    expected = scaled_dot_product_attention(Q, K, V, mask, scale=0.3)
    torch.testing.assert_close(found[0], expected)
    assert len(found) == len(kernel._schema.returns)
    causal: Any = (*((None, False) if given else ()), 0.0, True)
    found = decomposed(Q, K, V, *causal)
    torch.testing.assert_close(found[0], scaled_dot_product_attention(Q, K, V, is_causal=True))


@pytest.mark.parametrize("name", KERNELS)
def test_what_trains_or_drops_stays_whole(name: str) -> None:
    kernel, given, _ = KERNELS[name]
    decomposed = gpu_attention()[kernel]
    assert decomposed(Q, K, V, *given, 0.5) is NotImplemented
    if given:
        assert decomposed(Q, K, V, None, True) is NotImplemented


@pytest.mark.parametrize(
    ("size", "engine"), [((2, 4), True), (1, True), ((3, 8), False), ((8, 7), True)]
)
def test_adaptive_max_pooling_of_equal_windows_is_an_engines(size: Any, engine: bool) -> None:
    def pooled(x: torch.Tensor) -> torch.Tensor:
        y, places = nn.functional.adaptive_max_pool2d(x.tanh(), size, return_indices=True)
        return y * 2 + places

    compiled = dynamo_ext.optimize("xla")(pooled)
    x = torch.randn(2, 3, 8, 8)
    x[0, 0, 0, 0] = torch.nan
    torch.testing.assert_close(compiled(x), pooled(x), equal_nan=True)
    [graph] = compiled.report().graphs
    targets = {name for part in graph.partitions for name in part.targets}
    assert ("aten.max_pool2d_with_indices.default" in targets) is engine


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU, nn.RNN])
def test_a_dropout_that_aotautograd_leaves_out_is_eagers(kind: type[nn.RNNBase]) -> None:
    layers = kind(4, 4, num_layers=2, dropout=0.5)
    x = torch.randn(3, 2, 4)

    def run(x: torch.Tensor) -> torch.Tensor:
        return layers(x)[0]

    compiled = torch.compile(run, backend=registry.compiler("aot_eager"))
    torch.manual_seed(0)
    expected = run(x)
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True), pytest.warns(FallbackWarning, match="dropout"):
        torch.testing.assert_close(compiled(x), expected)
