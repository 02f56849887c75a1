"""The capture table: what is counted on a model whose breaks are known, and the page."""

from __future__ import annotations

import pytest
import torch

from benchmarks.capture import __main__ as capture
from benchmarks.capture import run
from benchmarks.capture.run import Row
from benchmarks.zoo.model import Built, Model

QUICK = capture.PART.parser().parse_args(["--quick", "--budget", "0.5"])
ROWS = (
    Row(
        "whole",
        inside=8,
        inside_seconds=0.01,
        graph_calls=1,
        sizes=(8,),
        eager_seconds=0.02,
        ratio=0.99,
        low=0.98,
        high=1.0,
        overhead_seconds=2e-4,
    ),
    Row(
        "half",
        inside=2,
        outside=2,
        inside_seconds=0.001,
        outside_seconds=0.003,
        graph_calls=2,
        sizes=(1, 1),
        breaks=1,
        reasons=("It prints.",),
        eager_seconds=0.001,
        ratio=0.9,
        low=0.8,
        high=1.0,
        overhead_seconds=1e-4,
    ),
    Row("lost", error="The process ended with code 1: no"),
)


def test_the_page() -> None:
    page = capture.document(ROWS, "Measured with: a machine.")
    assert "| whole | 8 | 100.0% | 100.0% | 1 | 8 | 8 | 0 | 20.00 | 0.990 (0.980–1.000) |" in page
    assert "| half | 4 | 50.0% | 25.0% | 2 |" in page
    assert "| models captured whole | 1 of 2 |  |" in page
    assert "1 with 1, 1 with 2–10, 0 with 11–100, 0 with 101 on" in page
    assert "| operations captured, mean over models by time | 62.5% | 83 % |" in page
    assert "1 model of 5 ms and more | geometric mean 0.990, worst 0.990" in page
    assert "median 100 µs a call" in page
    assert "- half: It prints." in page
    assert "| lost | The process ended with code 1: no |" in page
    assert Row.from_dict(ROWS[1].to_dict()) == ROWS[1]


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
