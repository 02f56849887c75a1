"""The model table: processes within bounds, and rows of other machines."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import machine, packed_rows, workers
from benchmarks.models import __main__ as models
from benchmarks.models.row import Row
from benchmarks.workers import Bounds, Ended
from benchmarks.zoo.form import TINY

pytest.importorskip("psutil")


def row(model: str = "MLP", backend: str = "onnxrt", **facts: object) -> Row:
    usual = {"graphs": 1, "normalised": True, "operations": 4, "in_engine": 3, "partitions": 1}
    return Row(model, backend, "float32", quick=False, status="right", **(usual | facts))


def test_a_crash_costs_one_model(monkeypatch: pytest.MonkeyPatch):
    def told(module, words, bounds, *, environment):
        yield "a", row("a", "ts").to_dict()
        yield "b", Ended("The process was ended by SIGSEGV.")

    monkeypatch.setattr(workers, "rows", told)
    found = list(models.rows("ab", "ts", "float32", form=TINY, bounds=Bounds()))
    assert [(r.model, r.status) for r in found] == [("a", "right"), ("b", "failed")]
    assert "SIGSEGV" in found[1].reason
    assert not list(models.rows([], "ts", "float32", form=TINY, bounds=Bounds()))


def test_the_page_has_rows_of_other_machines_where_there_are_none_here(tmp_path, monkeypatch):
    monkeypatch.setattr(packed_rows, "FOLDER", tmp_path)
    monkeypatch.setattr(machine, "name", lambda: "abacus-1-cores")
    for folder, names in {
        "abacus-1-cores": ["MLP"],
        "slide-rule-2-cores": ["MLP", "GCN layer"],
    }.items():
        store = packed_rows.PackedRows(tmp_path / folder / "models.jsonl.gz", models.KEYS)
        for name in names:
            made = replace(row(name, "ts"), machine=f"Measured with: processor {folder}.")
            store.add(made.to_dict())
        store.save()
    document = tmp_path / "models.md"
    assert models.main(["--only-write", "--write", str(document)]) == 0
    page = document.read_text()
    assert "processor abacus-1-cores. 1 row in float32" in page
    assert "processor slide-rule-2-cores. 1 row in float32" in page
    store = packed_rows.PackedRows(packed_rows.own("models"), models.KEYS)
    assert [each["model"] for each in store.all()] == ["MLP"]
