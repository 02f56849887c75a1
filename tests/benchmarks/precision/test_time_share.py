"""The share of a call's time in a lower precision, by engines' own profiles."""

from __future__ import annotations

import pytest
import torch

from benchmarks.precision.time_share import time_share
from benchmarks.zoo.model import Built


class Products(torch.nn.Module):
    """Two products, and softmax between them, which int8 computes in float32."""

    def __init__(self, times: int) -> None:
        super().__init__()
        self.times = times
        self.first, self.second = torch.nn.Linear(256, 256), torch.nn.Linear(256, 256)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """The second product of the softmax of the first, ``(rows, 256)``."""
        x = self.first(x)
        for _ in range(self.times):
            x = torch.softmax(x, -1)
        found: torch.Tensor = self.second(x)
        return found


@pytest.mark.parametrize("backend", ["eager:bf16", "openvino:bf16", "openvino:int8", "onnxrt:int8"])
def test_what_stays_in_float32_lowers_the_share(backend: str) -> None:
    torch.manual_seed(1)
    x = torch.randn(512, 256)
    mostly, partly = (time_share(Built(Products(n).eval(), (x,), {}), backend) for n in (0, 20))
    assert mostly is not None
    assert partly is not None
    assert 0 < partly <= 1
    assert 0 < mostly <= 1
    assert partly < mostly or backend.endswith("bf16")
