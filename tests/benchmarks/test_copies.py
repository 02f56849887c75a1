"""Copies of one backend: a tiny model for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks import copies, one_process
from benchmarks.bounds import Bounds
from benchmarks.copies_run import ALONE, CHOSEN, Copy, Row


def test_the_page() -> None:
    found = (
        Copy("tvm 1", 2.0, 1.9, 2.1),
        Copy("tvm 2", 2.2, 2.1, 2.3),
        Copy("auto 1", 2.1, 2.0, 2.2, "tvm"),
    )
    rows = [Row("MLP", "tvm", 0.002, found), Row("ViT", "tvm", error="It had no result.")]
    page = copies.document(rows, "Measured with: a machine.")
    assert "| MLP | tvm | 2.00 | 2.00 (1.90–2.10); 2.20 (2.10–2.30) | 10.0 % |" in page
    assert "| 2.10 (2.00–2.20) tvm | 1.00 |" in page
    assert "| ViT | It had no result. |" in page
    assert Row.from_dict(rows[0].to_dict()) == rows[0]


@pytest.mark.alone
def test_a_tiny_one_for_real() -> None:
    words = ["--model", "MobileNetV2", "--quick", "--budget", "1"]
    found = one_process.answer("copies_run", words, Bounds(300))
    assert not isinstance(found, str), found
    row = Row.from_dict(found)
    assert not row.error
    assert len(copies.alone(row)) == 1 + ALONE
    assert len(row.copies) == 1 + ALONE + CHOSEN
    assert all(each.ratio > 0 for each in row.copies)
