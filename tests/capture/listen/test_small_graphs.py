"""Functions and containers that a run calls often for little: captured at first, then Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

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

def in_parts(x):
    x = little(x)
    torch._dynamo.graph_break()
    return little(x)

def half_large(x):
    x = little(x)
    torch._dynamo.graph_break()
    return more(x)

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


@pytest.mark.parametrize(("function", "later"), [("in_parts", []), ("half_large", [40, 40])])
def test_a_function_in_parts_is_left_with_all_of_them(
    cells: Live, function: str, later: list[int]
) -> None:
    cells.well(FUNCTION)
    cell = f"z = often({function}, 40, x)"
    assert calls(cells.report(cell)) == [40, 40]
    # What it called is captured by itself, and left in its turn.
    cells.report(cell)
    assert calls(cells.report(cell)) == later


def test_what_a_cell_leaves_to_python_others_capture(cells: Live) -> None:
    cells.well(FUNCTION)
    cell, other = "z = often(little, 40, x)", "y = little(x)"
    cells.report(cell)
    assert calls(cells.report(cell)) == []
    elsewhere = cells.report(other)
    assert calls(elsewhere) == [1]
    assert elsewhere.fallbacks == ()
    assert calls(cells.report(cell)) == []
    for line in ("-b aot_eager", "-b eager --dynamic"):
        assert calls(cells.report(cell, line)) == [40], "of other options it is not known"
    cells.well("heard = []\ndef noted(graph, _): heard.append(graph); return graph.forward")
    cells.well("torch.compile(little, backend=noted)(x)")
    assert len(cells.names["heard"]) == 1, "torch.compile finds it as it was"


def test_what_is_left_goes_by_the_size_of_the_model(cells: Live) -> None:
    cells.well(FUNCTION)
    cells.well("v = torch.ones(200, 8)\ndef through(x): return net(x)")
    small, cell = "net = torch.nn.Linear(8, 8)", "z = often(through, 40, v)"
    large = "net = torch.nn.Sequential(torch.nn.Linear(8, 3000), torch.nn.Linear(3000, 8))"
    for model, first, later in ((small, [40], []), (large, [40], [40]), (small, [], [])):
        cells.well(model)
        with torch.no_grad():
            assert (calls(cells.report(cell)), calls(cells.report(cell))) == (first, later)


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
