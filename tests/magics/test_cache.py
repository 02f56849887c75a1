"""``%dynamo cache`` as typed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dynamo_ext
from dynamo_ext.api.cache import cache
from dynamo_ext.auto import backend as auto
from dynamo_ext.auto.cache import Store
from dynamo_ext.backends import crash_records, disk_cache
from dynamo_ext.backends.support.engine_store import EngineStore
from dynamo_ext.backends.support.support_cache import AnswerTable
from dynamo_ext.errors import RecordFormatError
from dynamo_ext.records.autotune import GraphRace
from tests.capture.live import Live, live
from tests.stores import left_behind

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PLACE = '{"device": "Some CPU (2 cores)", "threads": 1, "torch": "2.13.0"}'


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(auto.BACKEND, "store", Store(tmp_path / "races.sqlite"))
    monkeypatch.delenv(crash_records.UNRECORDED, raising=False)
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    with live("") as found:
        yield found


def test_an_empty_cache_says_so(cells: Live) -> None:
    assert "No race is remembered" in cells.well("%dynamo cache").out
    assert "0 races forgotten" in cells.well("%dynamo cache clear").out


def test_races_are_counted_by_winner_and_carried(cells: Live, tmp_path: Path) -> None:
    for number in range(3):
        auto.BACKEND.store.remember(f"g{number}", PLACE, GraphRace("onnxrt" if number else "eager"))
    shown = cells.well("%dynamo cache show").out
    assert "3 races" in shown
    assert "Some CPU (2 cores), 1 thread, torch" in shown
    assert "onnxrt won 2" in shown
    assert "3 races written" in cells.well(f"%dynamo cache export {tmp_path}/races.json").out
    assert "3 races forgotten" in cells.well("%dynamo cache clear").out
    assert "3 races read" in cells.well(f"%dynamo cache import {tmp_path}/races.json").out
    assert "onnxrt won 2" in cells.well("%dynamo cache").out


def test_programs_and_graphs_are_carried(cells: Live, tmp_path: Path) -> None:
    cells.well("net = torch.nn.Linear(8, 8).eval()\nx = torch.ones(4, 8)")
    cell = "%%dynamo -b onnxrt --quiet\nwith torch.no_grad():\n    y = net(x)"
    cells.well(cell)
    written = cells.well(f"%dynamo cache export {tmp_path}/all.json").out
    assert "1 program, 1 graph written to" in written
    cells.well("%dynamo cache clear")
    assert not EngineStore().files()
    read = cells.well(f"%dynamo cache import {tmp_path}/all.json").out
    assert "1 program, 1 graph read from" in read
    cells.well("%dynamo reset")
    cells.well(cell)
    [graph] = dynamo_ext.last_report().graphs
    assert [each.from_disk for each in graph.partitions] == [True]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        "\udcff",
        "[" * 200_000,
        '{"format": 99, "contests": []}',
        '{"format": "1", "contests": []}',
        '{"format": 1}',
        '{"format": 1, "contests": [null]}',
        f'{{"format": 1, "contests": [{"[" * 200_000}',
        f'{{"format": 1, "contests": [], "graphs": {{"{"0" * 32}": "?"}}}}',
    ],
    ids=lambda text: text[:60],
)
def test_a_file_that_is_no_export_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.json"
    path.write_text(text, errors="surrogateescape")
    with pytest.raises(RecordFormatError, match="is not an export"):
        cache("import", str(path))


def test_engines_that_ended_a_process_are_shown_and_forgotten(cells: Live) -> None:
    left_behind(crash_records.Attempt("onnxrt", "1.2", "graph"))
    shown = cells.well("%dynamo cache").out
    assert "No race is remembered" in shown
    assert "1 graph left to eager" in shown
    assert "2 processes ended while onnxrt compiled this graph (" in shown
    assert (
        "1 engine that ended a process may be tried again." in cells.well("%dynamo cache clear").out
    )
    assert "left to eager" not in cells.well("%dynamo cache").out
    assert "tried again" not in cells.well("%dynamo cache clear").out


def test_answers_of_engines_are_counted_and_forgotten(cells: Live) -> None:
    AnswerTable().keep([("key", "place", "", 1.0)])
    assert "1 answer of engines on whether" in cells.well("%dynamo cache").out
    assert "1 answer of engines forgotten" in cells.well("%dynamo cache clear").out
    assert "of engines" not in cells.well("%dynamo cache").out


@pytest.mark.parametrize("place", ["here", "[" * 100_000, "null", '{"device": 5}', "{}"])
def test_a_place_that_cannot_be_read_is_said_in_words(cells: Live, place: str) -> None:
    auto.BACKEND.store.remember("g", place, GraphRace("onnxrt"))
    auto.BACKEND.store.remember("h", PLACE, GraphRace("eager"))
    shown = cells.well("%dynamo cache show").out
    assert "At a place that this version cannot read:\n  onnxrt won 1" in shown
    assert "Some CPU (2 cores), 1 thread" in shown


@pytest.mark.parametrize(
    ("line", "words"),
    [("cache nonsense", "not known"), ("cache export", "FILE"), ("cache show x", "FILE"),
     ("cache import /nonexistent", "There is no file /nonexistent. Give a file that %dynamo"),
     ("cache import /", "/ cannot be read: is a directory. Give a file that %dynamo cache expo"),
     ("cache import /dev/null", "is not an export that this"), ("cache export a b", "FILE"),
     ("cache export /nonexistent/x.json", "/nonexistent/x.json cannot be written: no such file"),
     ("cache export /", "/ cannot be written: is a directory. Give a file in a folder")],
)  # fmt: skip
def test_bad_lines_are_one_sentence(cells: Live, line: str, words: str) -> None:
    ran = cells.run(f"%dynamo {line}")
    assert type(ran.error).__name__ == "UsageError"
    assert words in str(ran.error)
