"""Batches of another size: one tiny model for real, and the page."""

from __future__ import annotations

from benchmarks.batch_sizes import __main__ as batch_sizes
from benchmarks.batch_sizes.run import Row


def test_the_page() -> None:
    rows = [Row("A, onnxrt", (4.0, 2.0, 1.0), (2.0, 1.5, 0.5)), Row("B, onnxrt", error="No | row")]
    page = batch_sizes.document(rows, "Measured with: a machine.")
    assert "| A, onnxrt | 2.00 (4.00) | 1.50 (2.00) | 0.50 (1.00) | 0.75 |" in page
    assert "| B, onnxrt | No \\| row |" in page
    assert "**0.75**" in page
