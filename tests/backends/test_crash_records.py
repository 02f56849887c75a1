"""An engine that ends the process does so once for a graph."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.backends import crash_records
from dynamo_ext.backends.crash_records import Attempt
from tests import forks
from tests.backends.kernels import kernel, until
from tests.stores import at_once, keys, kill_at_any_moment, left_behind, on_a_full_disk, read_only

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv(crash_records.UNRECORDED, raising=False)
    monkeypatch.setattr(crash_records, "folder", lambda: tmp_path / "unfinished")
    return tmp_path / "unfinished"


def files(place: Path) -> list[str]:
    return sorted(path.name for path in place.iterdir()) if place.exists() else []


IMPORTED = "torch._dynamo, dynamo_ext.api.optimize, tests.backends.dying"


def own(script: str, folder: Path, **more: str) -> tuple[int, str]:
    """A script in a process whose cache is in ``folder``: what it ends with, and all it said."""
    environment = {**keys(folder), **more}
    code, said, errors = forks.run(script + forks.LEAVE, environment, IMPORTED)
    return code, said + errors


DYING = """
import os, torch, dynamo_ext
from tests.backends.dying import dying
fast = dynamo_ext.optimize(dying(os.environ["WHEN"]))(lambda x: (x + 1).sin() * 2)
x = torch.arange(3.0)
with torch.no_grad():
    assert torch.equal(fast(x), (x + 1).sin() * 2)
print([(f.stage, f.scope, f.message, f.remedy) for f in fast.report().fallbacks])
print(sorted({p.engine for g in fast.report().graphs for p in g.partitions}))
"""


@pytest.mark.parametrize("when", ["supports", "lower", "run", "whole run"])
def test_an_engine_ends_the_process_once(tmp_path: Path, when: str) -> None:
    assert own(DYING, tmp_path, WHEN=when)[0] == -signal.SIGSEGV
    ended, said = own(DYING, tmp_path, WHEN=when)
    assert ended == 0, said
    assert "A process crashed while dying" in said
    assert ("first ran" if "run" in when else "compiled") in said
    assert "%dynamo cache clear" in said


def written(place: Path) -> bytes:
    """What the records say, read without a lock: one would keep a process from its record."""
    with contextlib.suppress(FileNotFoundError):
        return b"".join(path.read_bytes() for path in place.glob("*.json"))
    return b""


def ended_within(stage: str, folder: Path, place: Path, number: int) -> None:
    """A process that a signal ends while its engine is at work."""
    before, doing = written(place), b"first running" if stage == "run" else b"compiling"
    environment = {**keys(folder), "WHEN": f"wait in {stage}"}
    script = forks.Script(DYING, environment, IMPORTED)
    until(lambda: (now := written(place)) != before and doing in now)
    os.kill(script.number, number)
    assert script.end()[0] == -number


@pytest.mark.parametrize(
    ("number", "counting", "stage"),
    [
        (signal.SIGKILL, [0, 1], "lower"),
        (signal.SIGKILL, [0, 1], "run"),
        (signal.SIGTERM, [0, 0], "lower"),
    ],
)
def test_an_end_that_is_no_crash_counts_from_the_second_on(
    tmp_path: Path, place: Path, number: int, counting: list[int], stage: str
) -> None:
    for count in counting:
        ended_within(stage, tmp_path, place, number)
        assert len(crash_records.all_of()) == count
    code, said = own(DYING, tmp_path, WHEN="wait in lower", SECONDS="0")
    assert code == 0
    assert ("2 processes ended while dying" in said) == bool(count)


def test_one_end_is_forgotten_once_the_work_is_done(tmp_path: Path, place: Path) -> None:
    ended_within("lower", tmp_path, place, signal.SIGKILL)
    assert len(files(place)) == 1
    code, said = own(DYING, tmp_path, WHEN="wait in lower", SECONDS="0")
    assert (code, said) == (0, "[]\n['dying']\n")
    assert files(place) == []
    ended_within("lower", tmp_path, place, signal.SIGKILL)
    assert crash_records.all_of() == []


def test_an_end_counts_until_the_first_run_is_done(place: Path) -> None:
    before = Attempt("engine", "1", "graph")
    before._begin("compiling")
    before._end(forked=True)
    attempt, processes = Attempt("engine", "1", "graph"), []
    stages: list[crash_records.Stage] = ["compiling", "first running", "compiling"]
    for stage in stages:
        with attempt.during(stage):
            [path] = place.iterdir()
            processes.append(json.loads(path.read_text())["processes"])
    assert processes == [2, 2, 1]


THEIRS = """
import ctypes, faulthandler, os
from dynamo_ext.backends.crash_records import Attempt
if "enable" in os.environ["THEIRS"]:
    faulthandler.enable()
else:
    faulthandler.register(15)
with Attempt("engine", "1", "graph").during("compiling"):
    pass
with Attempt("engine", "1", "graph").during("compiling"):
    if "enable" in os.environ["THEIRS"]:
        ctypes.string_at(0)
    os.kill(os.getpid(), 15)
    print("lives")
os.kill(os.getpid(), 15)
"""


@pytest.mark.parametrize(("theirs", "ends"), [("enable", -signal.SIGSEGV), ("register", 0)])
def test_a_handler_that_is_there_stays(tmp_path: Path, place: Path, theirs: str, ends: int) -> None:
    ended, said = own(THEIRS, tmp_path, THEIRS=theirs)
    assert ended == ends
    assert said.count("most recent call first") == 1 + (theirs == "register")
    # Of a crash that somebody else's handler has shown nothing is known.
    assert len(files(place)) == (theirs == "enable")
    assert crash_records.all_of() == []


def test_no_handler_stays_behind(tmp_path: Path) -> None:
    script = """
import faulthandler, os
from dynamo_ext.backends.crash_records import Attempt
with Attempt("engine", "1", "graph").during("compiling"):
    assert faulthandler.is_enabled()
    if os.fork() == 0:
        # What this one comes to is nothing to the record of the other.
        assert not faulthandler.is_enabled()
        os._exit(0)
assert not faulthandler.is_enabled()
assert not faulthandler.unregister(15)
"""
    assert own(script, tmp_path)[0] == 0


def test_importing_tvm_does_not_take_the_handler_away(tmp_path: Path, place: Path) -> None:
    pytest.importorskip("tvm")
    script = """
import ctypes, torch, dynamo_ext
from dynamo_ext.backends.engines.tvm import session
session.compiled = lambda *_: ctypes.string_at(0)
dynamo_ext.optimize("tvm")(lambda x: (x + 1).sin() * 2)(torch.arange(3.0))
"""
    assert own(script, tmp_path)[0] == -signal.SIGSEGV
    [record] = crash_records.all_of()
    assert record.message.startswith("A process crashed while tvm compiled")


SETTING = """
%load_ext dynamo_ext
import torch
from tests.backends.dying import dying
x = torch.arange(3.0)
waiting, crashing = dying("wait in lower"), dying("lower")
"""
CELL = "%%dynamo -b {} --quiet\ny = (x + 1).sin() * 2"


def test_restarts_and_interrupts_of_a_kernel_are_no_crashes(tmp_path: Path, place: Path) -> None:
    with kernel(keys(tmp_path)) as live:
        live.run(SETTING)
        ran = live.interrupted(CELL.format("waiting"), lambda: written(place))
        assert "KeyboardInterrupt" in ran.error
        assert files(place) == []
        live.start(CELL.format("waiting"))
        until(lambda: written(place))
        live.restart()
        assert files(place) == []
        live.run(SETTING)
        live.start(CELL.format("waiting"))
        until(lambda: written(place))
        # The request alone: what asks for an end may kill at once.
        live.client.shutdown(restart=True)
        until(lambda: not files(place))


def test_a_crash_of_a_kernel_counts_at_once(tmp_path: Path, place: Path) -> None:
    with kernel(keys(tmp_path)) as live:
        live.run(SETTING)
        live.start(CELL.format("crashing"))
        until(lambda: b"Fatal" in written(place))
        live.restart()
        live.run(SETTING)
        live.run(CELL.format("crashing"))
        ran = live.run("%dynamo cache\n%dynamo fallbacks")
        assert "1 graph left to eager" in ran.out
        assert "A process crashed while dying compiled" in ran.out


def test_another_version_is_tried_again_and_so_is_what_was_forgotten(tmp_path: Path) -> None:
    assert own(DYING, tmp_path, WHEN="lower")[0] == -signal.SIGSEGV
    assert own(DYING, tmp_path, WHEN="lower", VERSION="2")[0] == -signal.SIGSEGV
    clear = "from dynamo_ext.backends import crash_records as u; print(len(u.all_of()), u.clear())"
    assert own(clear, tmp_path)[1].split() == ["2", "2"]
    assert own(DYING, tmp_path, WHEN="lower")[0] == -signal.SIGSEGV


def test_auto_leaves_it_out_and_races_the_others(tmp_path: Path) -> None:
    script = """
import torch, dynamo_ext
from tests.backends.dying import dying
dynamo_ext.register_backend(dying("run"))
options = {"candidates": "dying+ts", "budget": 0.2}
fast = dynamo_ext.optimize("auto", options=options)(lambda x: (x + 1).sin() * 2)
x = torch.arange(3.0)
with torch.no_grad():
    assert torch.equal(fast(x), (x + 1).sin() * 2)
[graph] = fast.report().graphs
print({row.backend: (row.outcome, row.reason) for row in graph.contest.contestants})
"""
    assert own(script, tmp_path)[0] == -signal.SIGSEGV
    ended, said = own(script, tmp_path)
    assert ended == 0, said
    assert "'dying': ('crashed', 'A process crashed while dying first ran this graph" in said
    assert "'ts'" in said


def test_what_ends_is_no_longer_on_record(place: Path) -> None:
    attempt = Attempt("engine", "1", "graph")
    with attempt.during("compiling"):
        assert len(files(place)) == 1
    assert files(place) == []
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error), attempt.during("compiling"):
            raise error
        assert files(place) == []
    assert attempt.died() is None


def test_blocks_within_blocks_and_other_threads_end_with_the_last(place: Path) -> None:
    attempt = Attempt("engine", "1", "graph")
    with attempt.during("compiling"):
        with attempt.during("first running"):
            pass
        assert len(files(place)) == 1
        inside, go = threading.Event(), threading.Event()

        def other() -> None:
            with attempt.during("first running"):
                inside.set()
                go.wait(10)

        thread = threading.Thread(target=other)
        thread.start()
        inside.wait(10)
    assert len(files(place)) == 1
    go.set()
    thread.join()
    assert files(place) == []


def test_who_lives_is_no_crash_to_others(place: Path) -> None:
    """Another process at the same graph: neither takes the other's record for a crash."""
    mine, theirs = Attempt("engine", "1", "graph"), Attempt("engine", "1", "graph")
    with mine.during("compiling"):
        assert theirs.died() is None
        with theirs.during("compiling"):
            assert crash_records.all_of() == []
            assert crash_records.clear() == 0
        assert len(files(place)) == 1
    assert files(place) == []
    assert theirs.died() is None


def test_an_exit_while_a_thread_compiles_is_no_crash(tmp_path: Path) -> None:
    script = """
import sys, threading, time
from dynamo_ext.backends.crash_records import Attempt
begun = threading.Event()
def compile():
    with Attempt("engine", "1", "graph").during("compiling"):
        begun.set()
        time.sleep(60)
threading.Thread(target=compile, daemon=True).start()
begun.wait()
sys.exit(3)
"""
    assert own(script, tmp_path)[0] == 3
    assert files(next(tmp_path.rglob("unfinished"))) == []


def test_a_forked_process_neither_holds_nor_ends_the_record(place: Path) -> None:
    attempt = Attempt("engine", "1", "graph")
    here, there = os.pipe()
    with attempt.during("compiling"):
        child = os.fork()
        if child == 0:
            os.read(here, 1)
            os._exit(0)
        assert len(files(place)) == 1
    try:
        # As if the parent had died while the child lives: nobody holds the lock then.
        left_behind(attempt)
        assert attempt.died() is not None
    finally:
        os.write(there, b"x")
        os.waitpid(child, 0)
        os.close(here)
        os.close(there)


@pytest.mark.parametrize(
    "content", [b"", b"null", b"5", b"\xff\xfe", b"[" * 4000, b'{"engine": 1}', b"{" + b"x" * 5000]
)
def test_a_file_without_a_record_says_nothing(place: Path, content: bytes) -> None:
    attempt = Attempt("engine", "1", "graph")
    left_behind(attempt)
    [path] = place.iterdir()
    path.write_bytes(content)
    assert attempt.died() is None
    assert crash_records.all_of() == []
    with attempt.during("compiling"):
        pass
    assert files(place) == []


def test_records_are_bounded(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(crash_records, "MOST", 3)
    for number in range(6):
        left_behind(Attempt("engine", "1", f"graph {number}"))
    (place / "empty.json").touch()
    crash_records._prune.cache_clear()
    with Attempt("engine", "1", "another").during("compiling"):
        assert {record.graph for record in crash_records.all_of()} == {
            "graph 3",
            "graph 4",
            "graph 5",
        }
    assert len(files(place)) == 3


def test_a_process_that_may_be_lost_records_nothing(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    attempt = Attempt.of("engine", "1", graph, [torch.ones(2)])
    assert attempt is not None
    left_behind(attempt)
    assert attempt.died() is not None
    monkeypatch.setenv(crash_records.UNRECORDED, "1")
    assert attempt.died() is None
    with Attempt("engine", "1", "another").during("compiling"):
        assert len(files(place)) == 1


LOOP = """
import sys
from dynamo_ext.backends import crash_records
from dynamo_ext.backends.crash_records import Attempt
begun = False
while True:
    for number in range(5):
        attempt = Attempt("engine", "1", f"graph {number}")
        attempt.died()
        with attempt.during("compiling"):
            pass
    if not begun:
        print("begun", flush=True)
    begun = True
"""
ONCE = f"{LOOP}    break\n"
COUNT = "from dynamo_ext.backends import crash_records as u; print(len(u.all_of()))"


def test_a_kill_at_any_moment_leaves_one_record_at_most(tmp_path: Path) -> None:
    kill_at_any_moment(LOOP, tmp_path, times=12)
    place = next(tmp_path.rglob("unfinished"))
    _, said = own(COUNT, tmp_path)
    assert int(said) <= 5
    assert len(files(place)) <= 5
    assert own(ONCE, tmp_path)[0] == 0


def test_four_processes_at_once_see_no_crash(tmp_path: Path) -> None:
    script = LOOP.replace(
        "        attempt.died()\n", "        assert attempt.died() is None\n"
    ).replace("while True:", "for _ in range(200):")
    at_once(script, tmp_path, 4)
    assert files(next(tmp_path.rglob("unfinished"))) == []


def test_without_a_place_to_write_nothing_is_recorded(tmp_path: Path) -> None:
    assert read_only(ONCE, tmp_path) == "begun"
    assert on_a_full_disk(ONCE, tmp_path) == "begun"
    _, said = own(COUNT, tmp_path)
    assert said.strip() == "0"
