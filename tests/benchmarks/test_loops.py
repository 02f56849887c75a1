"""Cells with a loop: one narrow one for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks import workers
from benchmarks.loops import __main__ as loops
from benchmarks.loops.cells import CELLS
from benchmarks.loops.run import Gain, Row
from benchmarks.workers import Bounds

NAME = "training, the losses in a list"


def test_the_page() -> None:
    gains = (
        Gain("aot_eager", "measured", 0.5, 0.4, 0.6, graphs=1, calls=20, operations=30),
        Gain("onnxrt", "failed", reason="No room.", graphs=2, calls=40, operations=70),
    )
    rows = [Row(NAME, 0.02, gains), Row("another", error="It had no result after 1 s.")]
    page = loops.document(rows, "Measured with: a machine.")
    assert f"| {NAME} | 20.0 | 0.50 (0.40–0.60) | failed | 2 | 40 | 70 |" in page
    assert "| **geometric mean** | | **0.50** | **1.00** | | | |" in page
    assert f"- {NAME}, onnxrt: failed: No room." in page
    assert "| another | It had no result after 1 s. |" in page
    assert "of onnxrt, the third time" in page
    assert CELLS[NAME].cell in page
    assert Row.from_dict(rows[0].to_dict()) == rows[0]


@pytest.mark.sweep
def test_a_narrow_one_for_real() -> None:
    words = ["--model", NAME, "--quick", "--budget", "1", "--backends", "aot_eager,ts"]
    found = workers.answer("loops.run", words, Bounds(300))
    assert not isinstance(found, str), found
    row = Row.from_dict(found)
    assert row.plain_seconds > 0
    assert [gain.name for gain in row.gains] == ["aot_eager", "ts"]
    assert all(gain.outcome == "measured" for gain in row.gains), row.gains
    assert all(gain.calls >= 20 for gain in row.gains)
