"""What leaves this process is heard, and nothing else is."""

from __future__ import annotations

import os
import pty
import socket
import sqlite3
import subprocess
import sys
import threading

import pytest
import torch

from dynamo_ext.measure.state.side_effects import (
    RefusedEffectError,
    effects,
)


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
    path = tmp_path / "a.txt"
    with effects() as seen:
        thread = threading.Thread(target=lambda: path.write_text("x"))
        thread.start()
        thread.join()
    path.write_text("y")
    assert seen == []


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
        (lambda path: torch.save(torch.ones(1), path), "writes a file"),
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
