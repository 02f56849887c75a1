"""``%dynamo explain``: the same answer whatever ran before, and nothing is left of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from tests.capture.live import counting_compiles

if TYPE_CHECKING:
    from tests.capture.live import Live

NOTEBOOK = """
import torch, numpy as np
def f(x):
    y = x.sin()
    print("a")
    y = y * 2
    y = y + y.sum().item()
    z = torch.from_numpy(np.sort(y.numpy()))
    return z * 2
x = torch.randn(5)
"""
BEFORE = {
    "nothing": "",
    "the same backend": "%%dynamo -b eager\ny = f(x)",
    "another backend": "%%dynamo -b onnxrt\ny = f(x)",
    "an explanation": "%dynamo explain f(x)",
    "sizes and numbers that change": "%%dynamo -b eager\nfor i in range(3): y = f(torch.randn(5 + i))",
    "torch.compile": "g = torch.compile(f, backend='eager')\nfor i in range(3): g(torch.randn(5 + i))",
}


def explained(cells: Live) -> Any:
    cells.well("%dynamo explain f(x)")
    report = dynamo_ext.last_report()
    assert report.mode == "explain"
    breaks = [(each.line and each.line.code, each.reason) for each in report.breaks]
    graphs = [[operation.target for operation in graph.operations] for graph in report.graphs]
    return breaks, graphs, [each.message for each in report.fallbacks]


@pytest.mark.parametrize("before", BEFORE)
def test_it_is_the_same_whatever_ran_before(cells: Live, before: str) -> None:
    cells.well(BEFORE[before])
    breaks, graphs, fallbacks = explained(cells)
    assert len(breaks) == 5
    assert len(graphs) == 4
    assert fallbacks == []


def test_what_was_compiled_before_is_still_reused_after_it(cells: Live) -> None:
    cell = "%%dynamo -b eager\nfor i in range(2): y = f(x)"
    for _ in range(2):
        cells.well(cell)
    for _ in range(12):
        explained(cells)
    with counting_compiles() as compiled:
        cells.well(cell)
        cells.well("%%dynamo run\ny = f(x)")
    assert compiled == []


def test_a_function_s_explanation_reuses_and_leaves_nothing() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin().sum().item() * x

    fast = dynamo_ext.optimize("eager")(f)
    for size in (3, 4):
        fast(torch.ones(size))
    graphs = [len(dynamo_ext.explain(f, (torch.ones(5),)).graphs) for _ in range(10)]
    assert graphs == [2] * 10
    with counting_compiles() as compiled:
        fast(torch.ones(4))
    assert compiled == []
