"""Batches of another size: the ratio on the page, and one tiny model for real."""

from __future__ import annotations

import pytest

from benchmarks import batch_sizes, workers
from benchmarks.batch_sizes import Row
from benchmarks.workers import Bounds


def test_the_page() -> None:
    rows = [Row("A, onnxrt", (4.0, 2.0, 1.0), (2.0, 1.5, 0.5)), Row("B, onnxrt", error="No | row")]
    page = batch_sizes.document(rows, "Measured with: a machine.")
    assert "| A, onnxrt | 2.00 (4.00) | 1.50 (2.00) | 0.50 (1.00) | 0.75 |" in page
    assert "| B, onnxrt | No \\| row |" in page
    assert "**0.75**" in page


@pytest.mark.sweep
def test_a_tiny_model_for_real() -> None:
    words = ["--quick", "--here", "ResNet-18, onnxrt"]
    found = workers.answer("batch_sizes", words, Bounds(300))
    assert not isinstance(found, str), found
    row = Row.from_dict(found)
    assert not row.error
    assert len(row.seconds) == len(row.processor) == 3
