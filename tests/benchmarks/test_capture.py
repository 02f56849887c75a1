"""The capture table: what is counted on a model whose breaks are known."""

from __future__ import annotations

import pytest
import torch

from benchmarks.capture import __main__ as capture
from benchmarks.capture import run
from benchmarks.zoo.model import Built, Model

QUICK = capture.PART.parser().parse_args(["--quick", "--budget", "0.5"])


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.relu(x + 1)
        torch._dynamo.graph_break()
        return x * 2


class Uncaptured(torch.nn.Module):
    @torch.compiler.disable
    def aside(self, x: torch.Tensor) -> torch.Tensor:
        return x.sin().cos().tan()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.aside(x + 1)


@pytest.mark.parametrize(
    ("module", "inside", "outside", "graphs"), [(Broken, 3, 0, 2), (Uncaptured, 1, 3, 1)]
)
def test_operations_are_counted_where_they_ran(monkeypatch, module, inside, outside, graphs):
    def build() -> Built:
        return Built(module(), (torch.ones(4),), {})

    monkeypatch.setitem(run.MODELS, "mine", Model("mine", "", build, build))
    row = run.measure("mine", QUICK)
    assert (row.inside, row.outside, row.graph_calls) == (inside, outside, graphs)
    assert row.sizes == ((2, 1) if graphs > 1 else (1,))
    assert row.breaks
    assert row.reasons
    assert 0 < row.time_share <= 1
    assert row.ratio > 0
