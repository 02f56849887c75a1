"""TorchScript with NNC, where there is one."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.torchscript.backend import NNC
from dynamo_ext.errors import BackendUnavailableError

Harness = Any


def test_nnc_says_what_it_lacks(harness: Harness) -> None:
    answer = NNC.probe()
    if answer.available:
        pytest.skip("this torch has NNC")
    assert "LLVM" in answer.reason
    assert "CUDA" in answer.reason
    with pytest.raises(BackendUnavailableError, match="LLVM"):
        registry.compiler("nnc", strict=True)
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.sin, registry.compiler("nnc"))(x), x.sin())
    assert harness.stages == ["unavailable"]


def test_nnc_lowers_as_ts_does(harness: Harness) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()
    compiled = harness.compile(model, NNC)
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(3, 8)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
    assert set(harness.engines) == {"nnc"}
