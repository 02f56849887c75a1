"""``aot_eager`` under our road: right, and with its first call checked."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from tests.backends.engine_zoo import has_eagers_gradients


def mutating(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def test_it_is_ours_and_available() -> None:
    (info,) = registry.describe("aot_eager")
    assert info.origin == "dynamo_ext"
    assert info.availability.available
    assert registry.compiler("dx_aot_eager") is registry.compiler("aot_eager")


def test_results_and_gradients(harness: Any) -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))
    twin = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.GELU(), nn.Linear(8, 2))
    compiler = registry.compiler("aot_eager", {"verify": False})
    has_eagers_gradients(harness, compiler, (model, twin), lambda: torch.randn(5, 4))
    assert harness.stages == []


@pytest.mark.parametrize("fn", [mutating, lambda x: (x[:, -1], x.t() + 1), lambda x: x.sum()])
def test_ordinary_code(harness: Any, fn: Any) -> None:
    compiled = harness.compile(fn, registry.compiler("aot_eager"))
    for _ in range(3):
        x = torch.randn(3, 3)
        y = x.clone()
        torch.testing.assert_close(compiled(x), fn(y))
        torch.testing.assert_close(x, y)
    assert harness.stages == []
