"""The study of a GPU: the page's measured part, and rows of processes that crash."""

from __future__ import annotations

import pytest

from benchmarks.gpu import __main__ as study
from benchmarks.gpu import page
from benchmarks.gpu.run import Row
from benchmarks.zoo.form import Form


@pytest.fixture
def store(tmp_path):
    return study.Study(tmp_path / "gpu.jsonl.gz", Form(device="cuda"), 60.0)


def test_the_section_of_a_gpu(store, tmp_path):
    store.add(Row("machine", "GPU", reason="NVIDIA X"))
    store.add(Row("machine", "driver", reason="1.2"))
    store.add(Row("backend", "ts", "ts", "available", "2.11.0 cuda"))
    store.add(Row("test", "tests/gpu/a.py::b[ts]", "ts", "failed", "AssertionError: a | b"))
    store.add(Row("model", "MLP / ts", "ts", "measured", "", 2e-3, 1.0, 1.5, 1.4, 1.6))
    text = page.measured([tmp_path / "gpu.jsonl.gz"])
    assert text.startswith("### NVIDIA X, ")
    assert "With driver 1.2." in text
    assert "| ts | available: 2.11.0 cuda | 0 | 1 | 0 | 0 | 0 |" in text
    assert "- `tests/gpu/a.py::b[ts]`: failed: AssertionError: a \\| b" in text
    assert "| MLP / ts | measured | 2.000 | 1.50 (1.40–1.60) |  |  | 1.0 |  |  |" in text
