"""A part keeps its rows, goes on where it was, and writes its page."""

from __future__ import annotations

from dataclasses import asdict, dataclass

import pytest

from benchmarks import machine, packed_rows, workers
from benchmarks.part import Part
from benchmarks.stored_row import ModelRow
from benchmarks.workers import Bounds


@dataclass(frozen=True)
class Row(ModelRow):
    model: str
    value: float = 0.0
    error: str = ""


PART = Part(
    "nothing",
    "A part of a test.",
    ("one", "two"),
    Row,
    lambda rows, described: f"{[row.model for row in rows]} {described}",
    lambda row: f"{row.value}",
    lambda model, given: Row(model, given.budget),
    budget=1.0,
    timeout=5.0,
)


def stored_in(file):
    return packed_rows.PackedRows(file, ("model",)).all()


def store(file, row):
    rows = packed_rows.PackedRows(file, ("model",))
    rows.add(row)
    rows.save()


@pytest.fixture
def asked(monkeypatch):
    """The models that a process was started for; ``two`` crashes the first time."""
    calls = []

    def answer(module, words, bounds):
        assert (module, words[-2], bounds) == ("nothing", "--here", Bounds(5.0, 12.0))
        model = words[-1]
        calls.append(model)
        if model == "two" and calls.count("two") == 1:
            return "The process ended with code -11: "
        return asdict(Row(model, 2.0))

    monkeypatch.setattr(workers, "answer", answer)
    return calls


def run(tmp_path, *words):
    files = ["--rows", str(tmp_path / "rows.jsonl.gz"), "--write", str(tmp_path / "page.md")]
    return PART.run(arguments=[*files, *words])


def test_rows_are_stored_and_what_failed_is_told(tmp_path, asked, capsys):
    assert run(tmp_path) == 1
    stored = stored_in(tmp_path / "rows.jsonl.gz")
    assert [row["model"] for row in stored] == ["one", "two"]
    assert "two: 0.0 The process ended" in capsys.readouterr().out
    assert (tmp_path / "page.md").read_text().startswith("['one', 'two'] Measured with")


def test_it_goes_on_where_it_was(tmp_path, asked):
    run(tmp_path, "--models", "one")
    run(tmp_path)
    assert asked == ["one", "two"]
    assert run(tmp_path, "--again") == 0
    assert asked == ["one", "two", "one", "two"]


def test_rows_of_another_machine_are_measured_anew(tmp_path, asked):
    run(tmp_path, "--models", "one")
    file = tmp_path / "rows.jsonl.gz"
    (record,) = stored_in(file)
    assert machine.is_here(record["machine"])
    store(file, {**record, "machine": "Measured with: processor Another."})
    run(tmp_path, "--models", "one")
    assert asked == ["one", "one"]
    assert stored_in(file) == [record]
