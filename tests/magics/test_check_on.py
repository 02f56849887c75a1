"""``--check-on`` in a notebook: other inputs calibrate int8, and leave nothing behind."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends import calibration
from dynamo_ext.widgets.report.graphs import describe
from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from dynamo_ext.records.report import Report

SETUP = """
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU(), torch.nn.Conv2d(8, 8, 3), torch.nn.Flatten(1),
    torch.nn.Linear(8 * 8 * 8, 4),
).eval()
x = torch.randn(2, 3, 12, 12)
batches = [torch.randn(2, 3, 12, 12) for _ in range(3)]
seen = []
"""
CELL = "with torch.no_grad():\n    y = net(x)\nseen.append(float(torch.rand(())))"
ALONE = CELL.partition("\nseen")[0]
ON = "-b onnxrt:int8 --check-on x=batches"


@pytest.fixture
def cells() -> Iterator[Live]:
    pytest.importorskip("onnxruntime")
    with live(SETUP) as found:
        yield found


def calibrated(report: Report) -> list[int]:
    parts = [part for graph in report.graphs for part in graph.partitions]
    return [part.calibrated for part in parts if part.engine == "onnxrt"]


def error(cells: Live) -> float:
    with torch.no_grad():
        exact = cells.names["net"](cells.names["x"])
    return float((cells.names["y"] - exact).norm() / exact.norm())


def test_a_backend_in_int8_is_calibrated_before_the_cell_runs(cells: Live) -> None:
    before = dict(cells.names)
    cells.well("torch.manual_seed(3)")
    assert calibrated(cells.report(CELL, ON)) == [4]
    assert 1e-4 < error(cells) < 0.1
    # Its own run alone is seen, and draws what a plain cell would.
    torch.manual_seed(3)
    assert cells.names["seen"] == [float(torch.rand(()))]
    assert cells.names["x"] is before["x"]
    assert not calibration.is_active()


def test_the_next_run_of_the_cell_is_not_calibrated_again(cells: Live) -> None:
    for compiles in (True, False):
        report = cells.report(ALONE, ON)
        assert (report.compile_seconds > 0) is compiles
        assert calibrated(report) == [4]


def test_code_that_was_compiled_without_is_compiled_again(cells: Live) -> None:
    assert calibrated(cells.report(CELL, "-b onnxrt:int8")) == [0]
    assert calibrated(cells.report(CELL, ON)) == [4]
    cells.well("batches = batches[:1]")
    assert calibrated(cells.report(CELL, ON)) == [2]


def test_code_behind_a_graph_break_is_compiled_again(cells: Live) -> None:
    cells.well(
        "class Broken(torch.nn.Module):\n"
        "    def __init__(self):\n"
        "        super().__init__()\n"
        "        self.one, self.two = torch.nn.Conv2d(3, 4, 3), torch.nn.Conv2d(4, 4, 3)\n"
        "    def forward(self, x):\n"
        "        y = self.one(x).relu().tanh()\n"
        "        print(end='')\n"
        "        return self.two(y).relu().tanh()\n"
        "broken = Broken().eval()"
    )
    cell = "with torch.no_grad():\n    y = broken(x)"
    assert calibrated(cells.report(cell, "-b onnxrt:int8")) == []
    assert calibrated(cells.report(cell, ON)) == [4, 4]


def test_a_new_model_is_calibrated_anew(cells: Live) -> None:
    cells.report(ALONE, ON)
    cells.well(SETUP.partition("x =")[0])
    report = cells.report(ALONE, ON)
    assert calibrated(report) == [4]
    assert report.compile_seconds > 0
    cells.well("x = torch.randn(5, 3, 12, 12)")
    assert max(calibrated(cells.report(ALONE, ON))) >= 1
    assert error(cells) < 0.1


def test_run_reuses_what_is_calibrated(cells: Live) -> None:
    cells.report(ALONE, ON)
    report = cells.report(ALONE, f"run {ON}")
    assert (calibrated(report), report.compile_seconds) == ([4], 0)


@pytest.mark.parametrize("engine", ["onnxrt", "openvino"])
def test_other_sizes_calibrate_the_graph_of_all_sizes(cells: Live, engine: str) -> None:
    pytest.importorskip(engine.replace("onnxrt", "onnxruntime"))
    cells.well("batches = [torch.randn(n, 3, 12, 12) for n in (3, 4, 5)]")
    line = f"-b {engine}:int8 --check-on x=batches -n 6 --quiet -o r"
    cells.well(f"%%dynamo compare {line}\n{CELL}")
    report = cells.names["r"][f"{engine}:int8"].report
    [called] = [graph for graph in report.graphs if graph.calls]
    assert (
        max(part.calibrated for part in called.partitions) == {"onnxrt": 3, "openvino": 1}[engine]
    )


def test_the_report_says_on_how_many_calls(cells: Live) -> None:
    report = cells.report(CELL, ON)
    assert "calibrated on 4 calls" in describe(report, report.graphs[0])


def test_a_cell_that_cannot_run_twice_is_one_sentence(cells: Live, tmp_path: Path) -> None:
    path = tmp_path / "written"
    ran = cells.run(f"%%dynamo {ON} --quiet\n{CELL}\nopen({str(path)!r}, 'w').close()")
    assert "--check-on cannot calibrate: It writes" in str(ran.error)
    assert "dynamo_ext.calibrating()" in str(ran.error)
    again = cells.run(f"%%dynamo {ON} --quiet\n{CELL}\nopen({str(path)!r}, 'w').close()")
    assert str(again.error) == str(ran.error)
    assert ("y" in cells.names, cells.names["seen"], path.exists()) == (False, [], False)


@pytest.mark.parametrize("backend", ["onnxrt", "eager:bf16", "auto"])
def test_other_inputs_for_nothing_are_one_sentence(cells: Live, backend: str) -> None:
    ran = cells.run(f"%%dynamo -b {backend} --check-on x=batches --quiet\n{CELL}")
    assert "--check-on calibrates int8, or checks the bound of auto." in str(ran.error)
    assert "y" not in cells.names


def test_a_comparison_calibrates_each_that_computes_in_int8(cells: Live) -> None:
    line = "-b onnxrt,onnxrt:int8 --check-on x=batches -n 6 --per-graph --quiet -o r"
    cells.well(f"%%dynamo compare {line}\n{CELL}")
    result: Any = cells.names["r"]
    rows = {row.name: row for row in result.record.candidates}
    assert rows["onnxrt:int8"].outcome == "measured"
    assert rows["onnxrt:int8"].accuracy[0].sqnr < rows["onnxrt"].accuracy[0].sqnr
    assert {name: row.lowered for name, row in rows.items() if row.lowered is not None} == {
        "onnxrt:int8": 2 * 2 * 8 * (10 * 10 * 27 + 8 * 8 * 72 + 8 * 8 * 4)
    }
    [graph] = result.record.graphs
    assert [time.outcome for time in graph.times] == ["measured"] * 3
    assert ("y" in cells.names, cells.names["seen"]) == (False, [])


def test_auto_calibrates_what_races_in_int8(cells: Live) -> None:
    line = "-b auto --opt candidates=onnxrt --opt budget=0.2 --accuracy rel<=0.2"
    report = cells.report(CELL, f"{line} --check-on x=batches")
    [contest] = [graph.contest for graph in report.graphs]
    assert contest is not None
    [lowered] = [row for row in contest.contestants if row.backend == "onnxrt:int8"]
    # A convolution in float32 alone would leave an error of the last layer's.
    assert lowered.outcome in {"won", "slower"}
    assert lowered.error > 1e-3
    assert error(cells) < 0.2


@pytest.mark.parametrize("apart", [False, True])
def test_python_compares_on_other_inputs(*, apart: bool) -> None:
    pytest.importorskip("onnxruntime")
    net = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.ReLU()).eval()
    images = [(torch.randn(2, 3, 12, 12),) for _ in range(3)]
    options = {"min_partition": 1}
    with torch.no_grad():
        found = dynamo_ext.compare(
            net,
            images[0],
            ["onnxrt", "onnxrt:int8"],
            options=options,
            check_on=images[1:],
            rounds=6,
            isolate=apart,
        )
    [*_, row] = found.record.candidates
    assert row.lowered == 2 * 2 * 8 * 10 * 10 * 27
