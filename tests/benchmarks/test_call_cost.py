"""The call-cost benchmark measures what it says; how long anything takes is not asserted."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from benchmarks import call_cost
from benchmarks.call_split import candidates

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["eager", "ts", "onnxrt", "openvino", "tensorrt"]


@pytest.fixture
def one_thread():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def found():
    torch._dynamo.reset()
    yield call_cost.measure(NAMES, 3, 4)
    torch._dynamo.reset()


def test_every_candidate_is_timed_in_every_round(found):
    parts = [
        f"{name}{part}"
        for name in ("ts", "onnxrt", "openvino")
        for part in ("", " empty", " run", " bare")
    ]
    floors = ["plain", "torch eager", "torch aot_eager", "guards", "aot", "eager"]
    for times in found.values():
        assert set(times.rounds) == {*floors, *parts}
        assert all(len(rounds) == 3 and min(rounds) > 0 for rounds in times.rounds.values())


def test_what_cannot_run_says_why(found):
    for times in found.values():
        assert list(times.missing) == ["tensorrt"] or torch.cuda.is_available()


@pytest.mark.parametrize("name", ["ts", "onnxrt", "openvino"])
def test_the_candidates_compute_the_same(name):
    torch._dynamo.reset()
    for function, x in call_cost.workloads().values():
        with torch.no_grad():
            calls = candidates(function, x, [name]).calls
            expected = function(x)
            for key in ("torch eager", "guards", "aot", name, f"{name} empty"):
                for _ in range(3):
                    torch.testing.assert_close(calls[key](), expected)
            [result] = calls[f"{name} run"]()
            torch.testing.assert_close(result, expected)
            for _ in range(3):
                calls[f"{name} bare"]()


def test_a_difference_is_taken_within_a_round():
    times = call_cost.Times({"a": [5.0, 50.0, 6.0], "b": [1.0, 45.0, 3.0]})
    assert times.difference("a", "b") == 4
    assert times.median("a") == 6
    assert times.spread("b") == (2, 24)


def test_our_share_is_dispatch_and_binding():
    rounds = {"aot": 10, "x": 30, "x empty": 11, "x run": 9, "x bare": 6, "y": 5, "torch y": 4}
    times = call_cost.Times({name: [float(value)] * 3 for name, value in rounds.items()})
    assert call_cost.own_share(times, "x") == 4
    assert call_cost.own_share(times, "y") == 1


def test_the_page(tmp_path: Path, one_thread):
    target = tmp_path / "docs" / "call-cost.md"
    torch._dynamo.reset()
    arguments = ["--write", str(target), "--rounds", "2", "--calls", "3", "--backends", "ts"]
    assert call_cost.main([*arguments, "nvfuser"]) == 0
    text = target.read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("| ts")]
    assert len(rows) == 2
    assert all(len(row) == 7 and all(cell.strip() for cell in row) for row in rows)
    assert text.count("| nvfuser | ") == 2
    assert "Measured with: processor" in text
