"""XLA traced once beside traced at every call: one small model for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks import trace_once, trace_once_run
from benchmarks.trace_once_run import Row
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import TINY


def test_the_page() -> None:
    rows = [
        Row("one", 4.0, 3.5, 4.5, 0.01, 0.04),
        Row("two", 1.0, 0.9, 1.1, 0.02, 0.02),
        Row("three", error="xla: failed."),
    ]
    page = trace_once.document(rows, "Measured with: a machine.")
    assert "| one | 40.0 | 10.0 | 4.00 (3.50–4.50) |" in page
    assert "| **geometric mean** | | | **2.00** |" in page
    assert "| three | xla: failed. |" in page


def test_its_models_are_of_the_zoo() -> None:
    assert set(trace_once.MODELS) <= set(MODELS)


def test_a_small_model_for_real() -> None:
    pytest.importorskip("jax")
    row = trace_once_run.measure("MLP", form=TINY, budget=1.0)
    assert not row.error
    assert row.every_seconds > row.once_seconds > 0
    assert Row.from_dict(row.to_dict()) == row
