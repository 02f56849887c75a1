"""The model table: rows that are stored and resumed, processes within bounds, the document."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks import machine, packed_rows, workers
from benchmarks.models import __main__ as models
from benchmarks.models.row import Note, Row
from benchmarks.models.table import render, share
from benchmarks.workers import Bounds, Ended
from benchmarks.zoo.form import TINY

pytest.importorskip("psutil")


def row(model: str = "MLP", backend: str = "onnxrt", **facts: object) -> Row:
    usual = {"graphs": 1, "normalised": True, "operations": 4, "in_engine": 3, "partitions": 1}
    return Row(model, backend, "float32", quick=False, status="right", **(usual | facts))


def notes() -> tuple[Note, ...]:
    return (
        Note("unsupported", "aten.sin.default", "No Sin for node with name 'node_sin_3'", 2),
        Note("run", "", "RuntimeException: it was in /some/where/else.py", 3),
    )


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


@pytest.mark.parametrize(
    ("facts", "words"),
    [
        ({}, "75 %"),
        ({"graphs": 0}, "not captured"),
        ({"normalised": False}, "whole"),
    ],
)
def test_share(facts, words):
    assert share(row(**facts)) == words


def test_the_document_says_what_failed_and_names_no_path():
    rows = [
        row(notes=notes(), switches=2, compile_seconds=1.25),
        Row("MLP", "ts", "float32", False, "failed", "The process was ended by SIGSEGV."),
        Row("GCN layer", "ts", "bfloat16", False, "wrong", "Output 0: a | b", graphs=1),
    ]
    rows = [replace(each, machine="Measured with: some CPU.") for each in rows]
    text = render(rows, {"tvm": "It is not installed."})
    assert "Measured with: some CPU.\n" in text
    assert "`tvm` is not in the table: It is not installed." in text
    assert "| `onnxrt` | 1 of 1 | 1 | 1 | 1.2 |" in text
    assert "| `ts` | 0 of 1 | 0 | 0 | – |" in text
    assert "| MLP | `onnxrt` | 1 | 75 % | 1 | 2 | 1.2 | 0 | 0 | 2 refused, run × 3 |" in text
    assert "**failed**: The process was ended by SIGSEGV." in text
    assert "| GCN layer | `ts` | bfloat16 | wrong | Output 0: a \\| b |" in text
    assert "| `aten.sin.default` | No Sin for node | 2 | MLP |" in text
    assert "/some/where" not in text
    assert text.index("## float32") < text.index("## bfloat16")
