"""What leaves this process is heard, and nothing else is."""

from __future__ import annotations

import io
import os
import pty
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import pytest
import torch

from dynamo_ext.measure.state.side_effects import WORKERS, RefusedEffectError, effects


@pytest.fixture(autouse=True)
def _in_a_folder_of_the_users(tmp_path, monkeypatch):
    # Else pytest's folder would be one for temporary files.
    monkeypatch.chdir(tmp_path)


def test_writing_is_heard_and_reading_is_not(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("x")
    with effects() as seen:
        path.read_text()
    assert seen == []
    with effects() as seen:
        path.write_text("y")
        path.write_text("z")
        path.unlink()
    assert seen == [f"writes {path}", f"deletes {path}"]


def test_processes_and_the_network_are_heard():
    with effects() as seen:
        subprocess.run([sys.executable, "-c", ""], check=True)
        with socket.socket() as connection:
            connection.settimeout(0.1)
            connection.connect_ex(("127.0.0.1", 9))
    assert any("starts a process" in text for text in seen)
    assert any("network" in text for text in seen)


def test_other_threads_and_other_times_are_not(tmp_path):
    path, begun, done = tmp_path / "a.txt", threading.Event(), threading.Event()

    def write():
        begun.wait()
        path.write_text("x")
        done.set()

    threading.Thread(target=write).start()
    with effects() as seen:
        begun.set()
        done.wait()
    path.write_text("y")
    assert seen == []


@pytest.mark.parametrize("seconds", [0, 0.2])
def test_threads_that_it_starts_are_heard_also_when_they_outlive_it(tmp_path, seconds):
    path = tmp_path / "a.txt"

    def write():
        time.sleep(seconds)
        path.write_text("x")

    with effects() as seen:
        threading.Thread(target=write, daemon=True).start()
    assert seen == [f"writes {path}"]


def _overwrites(path):
    with path.open("w") as made:
        made.write("x")


@pytest.mark.parametrize(
    "place", ["{temporary}/a", "{cache}/a", "__pycache__/a", ".cache/lib/a", "{home}/.lib/a"]
)
def test_temporary_files_and_caches_are_no_effects(tmp_path, monkeypatch, place):
    folders = {name: tmp_path / name for name in ("temporary", "cache", "home", "here")}
    monkeypatch.setattr(tempfile, "tempdir", str(folders["temporary"]))
    monkeypatch.setenv("SOME_CACHE_DIR", str(folders["cache"]))
    monkeypatch.setenv("HOME", str(folders["home"]))
    for each in folders.values():
        (each / ".lib").mkdir(parents=True)
    monkeypatch.chdir(folders["here"])
    path = Path(place.format(**folders))
    with effects() as seen:
        path.parent.mkdir(parents=True, exist_ok=True)
        _overwrites(path)
        path.unlink()
        Path(os.devnull).write_text("x")
        with tempfile.TemporaryDirectory() as made:
            _overwrites(Path(made, "a"))
    assert seen == []


def test_a_temporary_file_is_refused_all_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    with pytest.raises(RefusedEffectError), effects(refused=True):
        (tmp_path / "temporary" / "a").write_text("x")


def test_the_current_folder_is_the_users_also_among_temporary_ones(tmp_path):
    assert tmp_path.is_relative_to(tempfile.gettempdir())
    with effects() as seen:
        _overwrites(Path("out.csv"))
        tempfile.mkstemp()
    assert seen == [f"writes {tmp_path / 'out.csv'}"]


def test_open_files_are_heard_where_they_are_written(tmp_path):
    path = tmp_path / "log.txt"
    with path.open("w") as log, path.open() as read, io.StringIO() as text:
        log.write("before")
        with effects([log, read, text, sys.stdout]) as seen:
            read.read()
            text.write("x")
        assert seen == []
        with effects([log, read]) as seen:
            log.write("x")
    assert seen == [f"writes {path}"]


def test_a_folder_that_is_there_is_not_made(tmp_path):
    with effects() as seen:
        (tmp_path / "new").mkdir(exist_ok=True)
        (tmp_path / "new").mkdir(exist_ok=True)
    assert seen == [f"makes the folder {tmp_path / 'new'}"]


def test_what_torch_saves_is_heard_with_its_place(tmp_path):
    with effects() as seen:
        torch.save(torch.ones(1), io.BytesIO())
        torch.save(torch.ones(1), "a.pt")
    assert seen == [f"writes {tmp_path / 'a.pt'}"]


def test_processes_that_work_for_it_are_told_apart():
    data = torch.utils.data.TensorDataset(torch.ones(4, 1))
    with effects() as seen:
        assert len(list(torch.utils.data.DataLoader(data, num_workers=1))) == 4
    assert seen == [WORKERS]


def test_what_is_refused_does_not_happen(tmp_path):
    path = tmp_path / "a.txt"
    with pytest.raises(RefusedEffectError), effects(refused=True) as seen:
        path.write_text("x")
    assert seen == [f"writes {path}"]
    assert not path.exists()
    path.write_text("y")


def test_a_thread_that_is_refused_is_not_begun():
    begun = threading.enumerate()
    with pytest.raises(RefusedEffectError), effects(refused=True) as seen:
        threading.Thread(target=len, args=("",)).start()
    assert seen == ["starts a thread"]
    assert threading.enumerate() == begun


def test_questions_are_refused_and_asked_again_later(monkeypatch):
    monkeypatch.setattr("builtins.input", lambda _: "yes")
    with pytest.raises(RefusedEffectError), effects(refused=True) as seen:
        input("Go on?")
    assert seen == ["asks for input"]
    assert input("Go on?") == "yes"


def _in_a_terminal():
    if pty.fork()[0] == 0:
        os._exit(0)


@pytest.mark.parametrize(
    ("act", "said"),
    [
        (lambda path: torch.save(torch.ones(1), path), "writes /"),
        (sqlite3.connect, "opens the database"),
        (lambda path: path.symlink_to(__file__), "links"),
        (lambda path: path.hardlink_to(__file__), "links"),
        (lambda path: os.truncate(path, 0), "cuts"),
        (lambda _: _in_a_terminal(), "starts a process"),
    ],
)
def test_what_python_does_not_open_is_refused_too(tmp_path, act, said):
    path = tmp_path / "a.txt"
    with pytest.raises(RefusedEffectError), effects(refused=True) as seen:
        act(path)
    assert [text.startswith(said) for text in seen] == [True]
    assert not path.exists()
    torch.save(torch.ones(1), path)
    assert path.exists()


def test_a_thread_that_watches_a_progress_bar_is_none_of_the_users():
    kind = type("Watcher", (threading.Thread,), {"__module__": "tqdm._monitor", "run": bool})
    with effects(refused=True) as seen:
        kind(target=len, args=("",)).start()
    assert seen == []
