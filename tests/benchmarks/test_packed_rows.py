"""Rows of a study lie in one compressed file, written as a whole."""

from __future__ import annotations

from benchmarks import machine, packed_rows
from benchmarks.zoo.form import Form


def test_files_of_other_machines_are_of_the_same_part_and_form(monkeypatch, tmp_path):
    monkeypatch.setattr(packed_rows, "FOLDER", tmp_path)
    monkeypatch.setattr(machine, "name", lambda: "abacus-1-cores")
    for folder in ("abacus-1-cores", "slide-rule-2-cores"):
        for file in ("random-programs.jsonl.gz", "tvm-tuning-full.jsonl.gz", "auto.jsonl.gz"):
            (tmp_path / folder).mkdir(exist_ok=True)
            (tmp_path / folder / file).touch()
    own = tmp_path / "abacus-1-cores"
    assert packed_rows.own("random_programs") == own / "random-programs.jsonl.gz"
    assert packed_rows.own("auto", Form("large", "cuda:0")) == own / "auto-cuda0-full.jsonl.gz"
    assert packed_rows.others("random_programs") == [
        tmp_path / "slide-rule-2-cores" / "random-programs.jsonl.gz"
    ]
