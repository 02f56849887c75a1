"""``torch.compiler.set_stance``, and the switches that turn torch's compiling off."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.compiler import set_stance

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from dynamo_ext.widgets.report import guards, summary

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report
    from tests.capture.live import Live

X = torch.arange(3.0)
DOUBLE = "x = torch.ones(3)\ndouble = lambda x: x * 2"


def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def only_step(report: Report) -> str:
    """The step of the only advice on a run that Dynamo was kept out of."""
    [advice] = [each for each in advise(report) if each.topic == "kept-out"]
    return advice.step


def test_forced_eager_uses_nothing_compiled_and_says_so() -> None:
    fast = dynamo_ext.optimize("eager")(twice)
    fast(X)
    assert not fast.report().fallbacks
    with set_stance("force_eager"):
        assert torch.equal(fast(X), X * 2)
        fast(X)
    report = fast.report()
    assert [graph.calls for graph in report.graphs] == [1]
    [fallback] = report.fallbacks
    assert fallback.scope == "run"
    assert "force_eager" in fallback.message
    assert "set_stance" in only_step(report)
    fast(X)
    assert [graph.calls for graph in fast.report().graphs] == [2]


def test_forced_eager_before_the_first_call() -> None:
    fast = dynamo_ext.optimize("eager")(twice)
    with set_stance("force_eager"):
        fast(X)
    said = summary.text(fast.report())
    assert "force_eager" in said
    assert "Only tensor operations" not in said


def test_forced_eager_in_a_block() -> None:
    with set_stance("force_eager"), dynamo_ext.optimize("eager") as session:
        twice(X)
    assert not session.report.graphs
    assert "set_stance" in only_step(session.report)


def test_a_comparison_under_forced_eager_says_why_nothing_is_compared() -> None:
    with set_stance("force_eager"):
        found = dynamo_ext.compare(twice, (X,), "aot_eager", budget=0.2)
    row = found["aot_eager"]
    assert row.outcome == "eager"
    assert "force_eager" in row.reason
    assert "set_stance" in row.remedy


def test_nothing_new_is_compiled_where_the_stance_says_so() -> None:
    fast = dynamo_ext.optimize("eager", dynamic=False)(twice)
    fast(X)
    with set_stance("eager_on_recompile"):
        fast(X)
        assert not fast.report().fallbacks
        assert torch.equal(fast(torch.ones(5)), torch.full((5,), 2.0))
    report = fast.report()
    assert [graph.calls for graph in report.graphs] == [2]
    assert [(each.prevented, each.count) for each in report.recompiles] == [(True, 1)]
    assert "set_stance" in only_step(report)
    assert "as torch's stance has it" in guards.text(report)
    assert not any("run never compiles" in each.step for each in advise(report))
    fast(torch.ones(5))
    assert len(fast.report().graphs) == 2


def test_a_recompile_raises_where_the_stance_says_so() -> None:
    fast = dynamo_ext.optimize("eager", dynamic=False)(twice)
    fast(X)
    with set_stance("fail_on_recompile"):
        fast(X)
        with pytest.raises(RuntimeError, match="expected 3, actual 5"):
            fast(torch.ones(5))
    fast(torch.ones(5))


@pytest.mark.parametrize("unsafe", [False, True])
def test_guards_are_skipped_where_the_stance_says_so(unsafe: Any) -> None:
    scale = [2.0]
    fast = dynamo_ext.optimize("eager")(lambda x: x * scale[0])
    fast(X)
    with set_stance(skip_guard_eval_unsafe=unsafe):
        scale[0] = 3.0
        # With one version there is nothing to tell apart: this is what the stance's name says.
        assert torch.equal(fast(X), X * (2 if unsafe else 3))
    assert torch.equal(fast(X), X * 3)


def test_a_cell_under_forced_eager(cells: Live) -> None:
    cells.well(DOUBLE)
    with set_stance("force_eager"):
        cells.well("%%dynamo -b eager\ny = double(x)")
    report = dynamo_ext.last_report()
    assert not report.graphs
    assert "set_stance" in only_step(report)


def test_a_cell_that_sets_the_stance_itself(cells: Live) -> None:
    cells.well(DOUBLE)
    text = (
        "a = double(x)\nwith torch.compiler.set_stance('force_eager'):\n    b = double(x)\n"
        "torch.compiler.set_stance('force_eager')\nc = double(x)"
    )
    try:
        cells.well(f"%%dynamo -b eager\n{text}")
    finally:
        set_stance("default")
    report = dynamo_ext.last_report()
    assert [graph.calls for graph in report.graphs] == [1]
    assert "set_stance" in only_step(report)
    assert torch.equal(cells.names["c"], torch.full((3,), 2.0))


def test_a_size_that_a_cell_marks_as_changing(cells: Live) -> None:
    cells.well(DOUBLE)
    cells.well("%%dynamo -b eager\ny = double(x)\ntorch._dynamo.mark_dynamic(x, 0)\nz = double(x)")
    report = dynamo_ext.last_report()
    assert [len(graph.operations) for graph in report.graphs] == [3, 4]
    [cut] = report.breaks
    assert cut.line is not None
    assert cut.line.line == 3
    [advice] = [each for each in advise(report) if each.topic == "break"]
    assert "`mark_dynamic` tells torch how to compile" in advice.problem
    assert not report.fallbacks


SWITCHED_OFF = """
import torch, dynamo_ext
fast = dynamo_ext.optimize("eager")(lambda x: x * 2)
assert torch.equal(fast(torch.ones(3)), torch.full((3,), 2.0))
[fallback] = fast.report().fallbacks
print(fast.report().graphs, fallback.message, fallback.remedy)
"""


@pytest.mark.parametrize("switch", ["TORCHDYNAMO_DISABLE", "TORCH_COMPILE_DISABLE"])
def test_switched_off_by_the_environment(switch: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWITCHED_OFF],
        env={**os.environ, switch: "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.startswith("()")
    assert switch in done.stdout


def test_switched_off_for_a_while() -> None:
    fast = dynamo_ext.optimize("eager")(twice)
    with torch._dynamo.config.patch(disable=True):
        fast(X)
    assert "config.disable" in fast.report().fallbacks[0].message
    assert not fast.report().graphs
    fast(X)
    assert [graph.calls for graph in fast.report().graphs] == [1]
