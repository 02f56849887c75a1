"""Remembered races: kept, found, carried, and never in the way."""

from __future__ import annotations

import sqlite3
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

from dynamo_ext.auto.cache import Store
from dynamo_ext.errors import FallbackWarning
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from tests.stores import at_once, kill_at_any_moment, on_a_full_disk, read_only

CONTEST = GraphRace(
    "onnxrt", (GraphCandidateResult("onnxrt", "won", 0.1, 2.0, 1.9, 2.1, version="1"),)
)


@pytest.fixture
def store(tmp_path):
    return Store(tmp_path / "folder" / "races.sqlite")


def test_nothing_is_written_by_looking(store):
    assert store.find("g", "p") is None
    assert store.all() == []
    assert store.clear() == 0
    assert not store.path.exists()


def test_a_race_is_found_again_at_its_place_alone(store):
    store.remember("g", "here", CONTEST)
    assert store.find("g", "here").contest == CONTEST
    assert store.find("g", "there") is None
    assert Store(store.path).find("g", "here").contest == CONTEST


def test_the_latest_race_counts(store):
    store.remember("g", "p", CONTEST)
    store.remember("g", "p", GraphRace("eager"))
    assert [entry.contest.winner for entry in store.all()] == ["eager"]


def test_a_backend_promises_the_median_of_its_last_races_at_a_place(store):
    for number, speedup in enumerate([1.0, 2.0, 4.0]):
        rows = (
            GraphCandidateResult("onnxrt", "won", speedup=speedup),
            GraphCandidateResult("tvm", "wrong"),
        )
        store.remember(f"g{number}", "here", GraphRace("onnxrt", rows))
    store.remember("h", "there", CONTEST)
    assert store.promises("here") == {"onnxrt": 2.0}
    assert store.promises("nowhere") == {}


def test_races_are_forgotten(store):
    store.remember("g", "p", CONTEST)
    store.remember("h", "p", CONTEST)
    store.forget("g", "p")
    assert [entry.graph for entry in store.all()] == ["h"]
    assert store.clear() == 1
    assert store.all() == []


@pytest.mark.parametrize(
    "content", [b"not a database at all" * 100, b"SQLite format 3\0" + b"x" * 500]
)
def test_a_damaged_file_is_put_aside_and_said(store, content):
    store.path.parent.mkdir()
    store.path.write_bytes(content)
    with pytest.warns(FallbackWarning, match="damaged"):
        assert store.find("g", "p") is None
    store.remember("g", "p", CONTEST)
    assert store.find("g", "p") is not None
    [aside] = store.path.parent.glob("*.damaged-*")
    assert aside.read_bytes() == content


def test_another_programs_file_is_put_aside_whole(store):
    store.path.parent.mkdir()
    theirs = sqlite3.connect(store.path)
    theirs.execute("PRAGMA journal_mode=WAL")
    theirs.execute("CREATE TABLE songs (name TEXT)")
    theirs.execute("INSERT INTO songs VALUES ('one')")
    theirs.commit()
    with pytest.warns(FallbackWarning, match="another program"):
        assert store.find("g", "p") is None
    theirs.close()
    store.remember("g", "p", CONTEST)
    assert store.find("g", "p") is not None
    [aside] = [path for path in store.path.parent.glob("*.foreign-*") if path.suffix[-1].isdigit()]
    reopened = sqlite3.connect(aside)
    assert reopened.execute("SELECT name FROM songs").fetchall() == [("one",)]
    assert reopened.execute("SELECT count(*) FROM sqlite_master").fetchall() == [(1,)]
    reopened.close()


def test_a_table_of_our_name_that_is_not_ours_is_put_aside(store):
    store.path.parent.mkdir()
    theirs = sqlite3.connect(store.path)
    theirs.execute("CREATE TABLE contests (song TEXT)")
    theirs.commit()
    theirs.close()
    with pytest.warns(FallbackWarning, match="no such column"):
        assert store.find("g", "p") is None
    store.remember("g", "p", CONTEST)
    assert store.find("g", "p") is not None


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (sqlite3.SQLITE_IOERR, "disk I/O error"),
        (sqlite3.SQLITE_IOERR_WRITE, "disk I/O error"),
        (sqlite3.SQLITE_FULL, "database or disk is full"),
        (sqlite3.SQLITE_READONLY, "attempt to write a readonly database"),
        (sqlite3.SQLITE_CANTOPEN, "unable to open database file"),
    ],
)
def test_a_sound_file_stays_where_the_disk_fails(store, monkeypatch, code, words):
    store.remember("g", "p", CONTEST)
    error = sqlite3.OperationalError(words)
    error.sqlite_errorcode = code

    def fails(*_):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(store, "_run", fails)
        with pytest.warns(FallbackWarning, match=words):
            assert store.find("g", "p") is None
        # Said once: a warning here would be an error.
        store.remember("h", "p", CONTEST)
    assert [entry.graph for entry in store.all()] == ["g"]
    assert not list(store.path.parent.glob(f"{store.path.name}.*"))


def test_a_folder_that_cannot_be_made_is_said(tmp_path):
    (tmp_path / "file").write_text("")
    store = Store(tmp_path / "file" / "races.sqlite")
    with pytest.warns(FallbackWarning, match="cannot be used"):
        store.remember("g", "p", CONTEST)
    assert store.all() == []
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Store(store.path).remember("g", "p", CONTEST)


BAD_ROWS = {
    "cut off": "value = '{'",
    "null": "value = 'null'",
    "number": "value = '5'",
    "list": "value = '[]'",
    "deep": f"value = '{'[' * 200_000}'",
    "blob": "value = x'ff00fe'",
    "not UTF-8": "value = CAST(x'7bff' AS TEXT)",
    "no winner": "value = '{}'",
    "winner is no text": """value = '{"winner": 5}'""",
    "contestants are no list": """value = '{"winner": "eager", "contestants": 5}'""",
    "seconds are text": """value = '{"winner": "eager", "seconds": "many"}'""",
    "seconds are NaN": """value = '{"winner": "eager", "seconds": NaN}'""",
    "made is text": "made = 'yesterday'",
    "made is a blob": "made = x'00'",
    "made is infinite": "made = 9e999",
    "another's place": "place = 'p', value = '{\"winner\": null}'",
}


@pytest.mark.parametrize("change", BAD_ROWS)
def test_a_row_that_cannot_be_read_is_no_race_and_is_raced_again(store, change):
    store.remember("g", "p", CONTEST)
    store.remember("h", "p", CONTEST)
    connection = sqlite3.connect(store.path)
    connection.execute(f"UPDATE contests SET {BAD_ROWS[change]} WHERE key = 'g'")
    connection.commit()
    connection.close()
    assert store.find("g", "p") is None
    assert [entry.graph for entry in store.all()] == ["h"]
    store.remember("g", "p", CONTEST)
    assert store.find("g", "p").contest == CONTEST


def test_several_writers_at_once(store):
    def write(number):
        for index in range(10):
            Store(store.path).remember(f"g{number}-{index}", "p", CONTEST)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(write, range(4)))
    assert len(store.all()) == 40


LOOP = """
import itertools, os, sys, warnings
from dynamo_ext.auto.cache import Store
from dynamo_ext.records.autotune import GraphRace, GraphCandidateResult
warnings.simplefilter("ignore")
store, race = Store(), GraphRace("ts", (GraphCandidateResult("ts", "won", version="1"),) * 50)
print("begun", flush=True)
for number in ROUNDS:
    store.remember(f"{os.getpid()} {number % 20}", "p", race)
    assert all(entry.contest == race for entry in store.all())
    store.forget(f"{os.getpid()} {(number - 3) % 20}", "p")
"""


def script(rounds):
    return LOOP.replace("ROUNDS", rounds)


def test_four_processes_at_once(tmp_path, monkeypatch):
    at_once(script("range(30)"), tmp_path, 4)
    [path] = tmp_path.rglob("cache.sqlite")
    assert len(Store(path).all()) == 4 * 3


def test_a_kill_at_any_moment_leaves_a_sound_store(tmp_path):
    kill_at_any_moment(script("itertools.count()"), tmp_path, times=12)
    [path] = tmp_path.rglob("cache.sqlite")
    store = Store(path)
    assert store.all()
    store.remember("g", "p", CONTEST)
    assert store.find("g", "p").contest == CONTEST
    assert not list(path.parent.glob("*.damaged-*"))


def test_without_a_place_to_write_races_are_not_remembered(tmp_path):
    assert read_only(script("range(3)"), tmp_path) == "begun"
    assert on_a_full_disk(script("range(3)"), tmp_path) == "begun"
    # What could not be written before is no damage, and a store that is there stays whole.
    at_once(script("range(3)"), tmp_path, 1)
    assert on_a_full_disk(script("range(3)"), tmp_path) == "begun"
    assert not list(tmp_path.rglob("*.damaged-*"))
    [path] = tmp_path.rglob("cache.sqlite")
    assert len(Store(path).all()) == 3
