"""The study of a GPU: the page's measured part, and rows of processes that crash."""

from __future__ import annotations

import math
import subprocess
import sys
import time

import pytest

from benchmarks import workers
from benchmarks.gpu import __main__ as study
from benchmarks.gpu import page
from benchmarks.gpu.run import Row, backend_of
from benchmarks.zoo.form import Form

PAGE = f"# A title\n\n{page.BEGIN}\nold\n{page.END}\n\nWritten by hand.\n"

WORKER = """
import os, sys, time
from benchmarks import workers

class Row(dict):
    to_dict = dict.copy

def measure(test):
    if test == "crash":
        os.abort()
    if test == "hang":
        time.sleep(60)
    yield Row(part="test", name=test, outcome="passed")

sys.exit(workers.go_through(["one", "crash", "two", "hang", "three"], measure))
"""


@pytest.fixture
def store(tmp_path):
    return study.Study(tmp_path / "gpu.jsonl.gz", Form(device="cuda"), 60.0)


def test_the_backend_of_a_test():
    assert backend_of("tests/gpu/test_models.py::test_mutated_inputs[ts]") == "ts"
    assert (
        backend_of("tests/gpu/test_fallbacks.py::test_cudagraphs_tells_its_skips") == "cudagraphs"
    )
    assert not backend_of("tests/gpu/test_models.py::test_mutated_inputs")


def test_only_the_measured_part_is_replaced():
    text = page.replaced(PAGE, "new")
    assert text == PAGE.replace("old", "new")
    with pytest.raises(ValueError, match="The page has no"):
        page.replaced("# A title\n", "new")


def test_without_rows_nothing_has_run(tmp_path):
    study.Study(tmp_path / "dry.jsonl.gz", Form(), 1.0).add(Row("machine", "GPU", reason="X"))
    assert page.measured([tmp_path / "none", tmp_path / "dry.jsonl.gz"]) == page.NOTHING


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


def test_a_resumed_run_keeps_rows(store, tmp_path):
    store.add(Row("test", "a", "ts", "passed"))
    again = study.Study(tmp_path / "gpu.jsonl.gz", Form(device="cuda"), 60.0, resume=True)
    again.add(Row("test", "a", "ts", "not run"))
    assert [row.outcome for row in again.rows("test")] == ["passed"]
    assert study.Study(tmp_path / "gpu.jsonl.gz", Form(device="cuda"), 60.0).rows("test") == []


def test_a_process_that_ends_costs_one_test(store, tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text(WORKER)
    start = subprocess.Popen
    monkeypatch.setattr(
        workers.subprocess, "Popen", lambda words, **how: start([sys.executable, worker], **how)
    )
    monkeypatch.setattr(study, "_START", 4.0)
    monkeypatch.setenv("PYTHONPATH", str(workers._ROOT))
    store.run("test", ["tests"], 1.0, math.inf)
    found = {row.name: (row.outcome, row.reason) for row in store.rows("test")}
    assert found == {
        "one": ("passed", ""),
        "two": ("passed", ""),
        "three": ("passed", ""),
        "crash": ("ended", "The process was ended by SIGABRT."),
        "hang": ("ended", "It had no result after 1 s."),
    }


def test_nothing_goes_on_after_the_end(store, tmp_path, monkeypatch):
    worker = tmp_path / "worker.py"
    worker.write_text("import time\nprint('@worker [\"hang\", null]', flush=True)\ntime.sleep(60)")
    start = subprocess.Popen
    monkeypatch.setattr(
        workers.subprocess, "Popen", lambda words, **how: start([sys.executable, worker], **how)
    )
    began = time.monotonic()
    store.run("test", ["tests"], 60.0, began + 1)
    assert time.monotonic() - began < 5
    [row] = store.rows("test")
    assert (row.outcome, row.reason) == (
        "ended",
        "It had no result when the time for all was over.",
    )
