"""What guards cost: a tiny model for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks import guards, one_process
from benchmarks.bounds import Bounds
from benchmarks.guards_run import Row, Speedup


def test_the_page() -> None:
    three = Speedup(2.0, 1.9, 2.1), Speedup(2.5, 2.4, 2.6), Speedup(3.0, 2.9, 3.1)
    row = Row("MLP", "onnxrt", "a peer", 4, 20, 0.002, 0.0001, 0.0002, *three)
    page = guards.document([row, Row("ViT", error="It had no result.")], "With: a machine.")
    line = "| MLP | 4 | 20 | 2.00 | `onnxrt` | 2.00 (1.90–2.10) | 2.50 (2.40–2.60) | 0.20 | 0.10 |"
    assert f"{line} a peer | 3.00 (2.90–3.10) |" in page
    assert "| ViT | It had no result. |" in page
    assert Row.from_dict(row.to_dict()) == row


@pytest.mark.alone
def test_a_tiny_one_for_real() -> None:
    words = ["--model", "MobileNetV2", "--quick", "--budget", "1"]
    found = one_process.answer("guards_run", words, Bounds(300))
    assert not isinstance(found, str), found
    row = Row.from_dict(found)
    assert not row.error
    assert row.guards > row.weights > 100
    assert row.warm > 0
    assert all(each is not None for each in (row.guarded, row.skipped, row.rival))
