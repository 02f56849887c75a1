"""Rows of processes that crash, hang, grow or cannot be started."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from benchmarks import workers
from benchmarks.workers import Bounds, Ended

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytest.importorskip("psutil")

WORKER = """
import os, sys, time
from dataclasses import dataclass
from benchmarks import workers
from benchmarks.stored_row import StoredRow

@dataclass(frozen=True)
class Row(StoredRow):
    said: str

def measure(item):
    {body}
    yield Row(item + "!")

sys.exit(workers.go_through(sys.argv[1:], measure))
"""


@pytest.fixture
def processes() -> list[subprocess.Popen[bytes]]:
    return []


@pytest.fixture
def run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    processes: list[subprocess.Popen[bytes]],
) -> Callable[..., Any]:
    """Runs a worker with a body of its own."""
    start = subprocess.Popen

    def popen(command: list[str], **how: Any) -> subprocess.Popen[bytes]:
        processes.append(start([sys.executable, tmp_path / "worker.py", *command[3:]], **how))
        return processes[-1]

    def begin(body: str, items: str, done: Sequence[str] = (), **facts: Any) -> Any:
        (tmp_path / "worker.py").write_text(WORKER.format(body=body))
        monkeypatch.setattr(subprocess, "Popen", popen)
        environment = {"PYTHONPATH": str(workers._ROOT)}
        bounds = Bounds(**{"seconds": 20.0, **facts})
        return workers.rows("x", list(items), bounds, done=done, environment=environment)

    return begin


def test_a_crash_costs_one_item(run: Any, processes: list[Any]) -> None:
    found = list(run("if item == 'b': os.abort()", "abc"))
    end = Ended("The process was ended by SIGABRT.")
    assert found == [("a", {"said": "a!"}), ("b", end), ("c", {"said": "c!"})]
    assert len(processes) == 2


def test_an_exit_within_an_item_is_told(run: Any) -> None:
    found = list(run("if item == 'a': os._exit(0)", "ab"))
    assert found == [("a", Ended("The process ended with code 0: ")), ("b", {"said": "b!"})]


def test_what_hangs_is_ended(run: Any, processes: list[Any], monkeypatch: Any) -> None:
    monkeypatch.setattr(workers, "_PAUSE", 0.01)
    body = "time.sleep(60 * (item == 'b'))"
    found = list(run(body, "abc", seconds=0.5))
    assert found[1][1].late
    assert [item for item, _ in found] == ["a", "b", "c"]
    assert processes[0].poll() == -9


def test_what_grows_is_ended(run: Any) -> None:
    ((item, end),) = run("x = b'1' * 2**30; time.sleep(60)", "a", memory=1.0)
    assert (item, end.reason, end.late) == ("a", "It used more than 1 GiB of memory.", False)


def test_what_cannot_be_started_is_an_error() -> None:
    with pytest.raises(workers.WorkerError, match="no_such_part"):
        list(workers.rows("no_such_part", [], Bounds(60)))
