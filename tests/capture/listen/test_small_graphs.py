"""Functions and containers that a run calls often for little: captured at first, then Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.capture.listen import small_graphs
from tests.capture.captured import captured

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report
    from tests.capture.live import Live

FUNCTION = """
def little(x):
    return x.sin() * 2 + 1

def more(x):
    for _ in range(5):
        x = x.sin() * 2 + 1
    return x

def often(function, n, x):
    for _ in range(n):
        if x.sum() > 1e9:
            break
        x = function(x) / 2
    return x
"""


def calls(report: Report) -> list[int]:
    return [graph.calls for graph in report.graphs]


def test_it_runs_in_python_after_a_run_that_called_it_often(cells: Live) -> None:
    cells.well(FUNCTION)
    cell = "z = often(little, 40, x)"
    first = cells.report(cell)
    assert calls(first) == [40]
    assert any("few operations" in each.message for each in first.fallbacks)
    again = cells.report(cell)
    assert calls(again) == []
    assert any("few operations" in each.message for each in again.fallbacks), "said each time"
    assert calls(cells.report(cell, "-b eager --capture all")) == [40]


@pytest.mark.parametrize("cell", ["z = often(little, 20, x)", "z = often(more, 40, x)"])
def test_few_calls_and_larger_graphs_stay_captured(cells: Live, cell: str) -> None:
    cells.well(FUNCTION)
    assert calls(cells.report(cell)) == calls(cells.report(cell)) != []


@pytest.mark.parametrize(("width", "later"), [(8, []), (3000, [40])])
def test_containers_are_left_one_by_one(cells: Live, width: int, later: list[int]) -> None:
    cells.well(FUNCTION)
    cells.well(
        f"net = torch.nn.Sequential(torch.nn.Linear(8, {width}), torch.nn.Linear({width}, 8))\n"
        "other = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU())\n"
        "v = torch.ones(200, 8)"
    )
    two = "with torch.no_grad():\n    a = often(other, 2, v)\n    z = often(net, 40, v)"
    assert sorted(calls(cells.report(two))) == [2, 40]
    assert sorted(calls(cells.report(two))) == [2, *later]


def test_sizes_of_products_count() -> None:
    def product(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.linear(x, w)

    graph, _ = captured(product, torch.ones(100, 300), torch.ones(200, 300))
    (node,) = (each for each in graph.graph.nodes if each.op == "call_function")
    assert small_graphs._additions(node) == 100 * 200 * 300
