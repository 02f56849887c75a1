"""The seconds that a cell's first run has for compiling, and what comes after them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.magics import workbench
from dynamo_ext.timing import first_run
from tests.capture.live import Live

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report

NOTEBOOK = """
x = torch.ones(3)
def f(v):
    return (v * 3).sin().exp() + 1
def g(v):
    return (v * 2).cos().exp() + 1
"""
CELL = "y = f(x)\nprint(float(y.sum()))\nz = g(x) + y"


@pytest.fixture(autouse=True)
def _usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(first_run.ENVIRONMENT)


def operations(report: Report) -> int:
    return sum(graph.operation_count for graph in report.graphs if graph.calls)


def test_what_does_not_begin_in_time_is_python_and_the_next_run_goes_on(cells: Live) -> None:
    whole = operations(cells.report(CELL, "-b eager --first-run none"))
    expected = cells.names["z"]
    cells.run("%dynamo reset")
    first = cells.report(CELL, "-b eager --first-run 1e-9")
    assert torch.equal(cells.names["z"], expected)
    assert operations(first) < whole
    told = [f for f in first.fallbacks if "1e-09 s for the first run" in f.message]
    assert {f.remedy for f in told} == {first_run.REMEDY}
    assert operations(cells.report(CELL, "-b eager")) == whole


@pytest.mark.parametrize("line", ["-b inductor", "-b onnxrt --opt min_partition=1"])
def test_a_graph_that_was_refused_is_captured_again(
    cells: Live, line: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Late(first_run.FirstRun):
        """Used up as soon as a graph has been captured."""

        def used_up(self, expected: float = 0.0) -> str:
            assert expected >= 0
            return "It is late." if self._since is not None else ""

    monkeypatch.setattr(workbench, "FirstRun", Late)
    late = cells.report("y = f(x)", line)
    assert any("It is late." in f.message for f in late.fallbacks)
    monkeypatch.undo()
    report = cells.report("y = f(x)", f"{line} --first-run none")
    assert operations(report) == 4
    assert not report.fallbacks
    torch.testing.assert_close(cells.names["y"], (torch.ones(3) * 3).sin().exp() + 1)


def test_the_environment_may_set_it(cells: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(first_run.ENVIRONMENT, "1e-9")
    assert any(f.cause == "time" for f in cells.report("y = f(x)").fallbacks)
    assert not cells.report("y = f(x)", "-b eager --first-run none").fallbacks


@pytest.mark.parametrize("flag", ["--first-run none", "--fullgraph"])
def test_a_cell_may_have_no_limit(cells: Live, flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(first_run, "_SECONDS", {"eager": 1e-9})
    assert operations(cells.report("y = f(x)", f"-b eager {flag}")) == 4


@pytest.mark.parametrize("given", ["-1", "soon", "nan"])
def test_seconds_that_are_none_are_refused(cells: Live, given: str) -> None:
    ran = cells.run(f"%%dynamo -b eager --first-run={given}\ny = f(x)")
    assert "option 'first_run' cannot be" in str(ran.error) + ran.err + ran.shown
