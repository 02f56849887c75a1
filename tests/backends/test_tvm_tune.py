"""MetaSchedule on small functions: what is measured, kept, found again and shown."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry, tvm_database, tvm_measure, tvm_target, tvm_tune
from dynamo_ext.backends.compilers import Compiler

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.importorskip("tvm")

BACKEND = registry.get("tvm_meta_schedule")
AVAILABLE = BACKEND.probe()
searches = pytest.mark.skipif(not AVAILABLE.available, reason=AVAILABLE.reason)

Harness = Any


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()


X = torch.randn(16, 64)


def tuned(folder: Path, **options: Any) -> Any:
    settled = {"trials": 3, "budget": 60, "database": str(folder), "cost_model": "random"}
    given = {spec.name: spec.default for spec in BACKEND.options} | settled | options
    return Compiler(BACKEND, given)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tvm_tune.Progress]:
    found: list[tvm_tune.Progress] = []
    monkeypatch.setattr(tvm_tune, "on_progress", found.append)
    return found


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many schedules were measured, one number for each search."""
    counts: list[int] = []
    tune = tvm_tune.tune

    def spy(*args: Any) -> list[tvm_tune.Task]:
        tasks = tune(*args)
        counts.append(sum(task.trials for task in tasks))
        return tasks

    monkeypatch.setattr(tvm_tune, "tune", spy)
    return counts


def lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines()]


def single(folder: Path) -> list[dict[str, Any]]:
    """The measurements of the searches themselves, without what their finals settled."""
    return [line for line in lines(folder) if not line.get("settled")]


def agrees(harness: Harness, compiled: Any, module: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), module(X), rtol=1e-4, atol=1e-5)
    assert set(harness.engines) == {"tvm_meta_schedule"}
    assert not harness.stages


SECOND = """
import sys, torch
from dynamo_ext.backends import registry, tvm_tune
sys.path.insert(0, sys.argv[2])
from test_tvm_tune import X, model
counts = []
tune = tvm_tune.tune
tvm_tune.tune = lambda *args: counts.append(tune(*args)) or []
module = model()
options = {"trials": 3, "database": sys.argv[1]}
with torch.no_grad():
    x = torch.randn(16, 64)
    found = torch.compile(module, backend=registry.compiler("tvm_meta_schedule", options))(x)
    torch.testing.assert_close(found, module(x), rtol=1e-4, atol=1e-5)
print(counts)
"""


@searches
def test_what_is_new_is_tuned_once(
    harness: Harness, tmp_path: Path, told: list[tvm_tune.Progress], measured: list[int]
) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path)), module)
    assert measured == [6]
    assert len(single(tmp_path)) == 6
    assert [(p.position, p.trials) for p in told] == [
        (1, 1),
        (1, 2),
        (1, 3),
        (2, 1),
        (2, 2),
        (2, 3),
    ]
    assert told[-1].finished
    assert all(0 < p.best <= p.rule for p in told)
    # Another graph with a function of the same kind: only what differs is new.
    torch._dynamo.reset()
    wider = nn.Sequential(*module, nn.Linear(32, 8)).eval()
    agrees(harness, harness.compile(wider, tuned(tmp_path)), wider)
    assert measured == [6, 3]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SECOND, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.returncode, done.stdout.strip()) == (0, "[[]]"), done.stderr
    assert len(single(tmp_path)) == 9


@searches
def test_the_learned_model_searches_too(
    harness: Harness, tmp_path: Path, told: list[tvm_tune.Progress], measured: list[int]
) -> None:
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval()
    compiler = tuned(tmp_path, cost_model="xgboost", trials=20, min_partition=1)
    agrees(harness, harness.compile(module, compiler), module)
    assert measured == [20]
    assert told[-1].trials == 20
    assert "tvm.s_tir.tensor_intrin" not in sys.modules
    ask = tvm_target.package().get_global_func("s_tir.meta_schedule.using_ipython")
    assert ask() is False


@searches
def test_a_search_without_time_leaves_the_rules(
    harness: Harness, tmp_path: Path, measured: list[int]
) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path, budget=0)), module)
    assert measured == [0]
    assert not list(tmp_path.glob("*.jsonl"))


@searches
def test_an_interrupt_keeps_what_was_measured(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[int]
) -> None:
    def stop(progress: tvm_tune.Progress) -> None:
        if progress.trials == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(tvm_tune, "on_progress", stop)
    module = model()
    compiled = harness.compile(module, tuned(tmp_path))
    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        compiled(X)
    assert len(lines(tmp_path)) == 2
    monkeypatch.setattr(tvm_tune, "on_progress", lambda _: None)
    torch._dynamo.reset()
    agrees(harness, harness.compile(module, tuned(tmp_path)), module)
    # The function that was being searched has records; the other one is new still.
    assert measured == [3]


def test_a_schedule_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    function, made = one_function()
    with tvm_measure.Worker() as worker:
        assert 0 < worker.seconds(function, made) < 1
        monkeypatch.setattr(tvm_measure, "CALL_SECONDS", 0.0)
        with pytest.raises(tvm_measure.MeasureError, match="more than 0 seconds"):
            worker.seconds(function, made)
        monkeypatch.setattr(tvm_measure, "CALL_SECONDS", 60.0)
        process = worker._running()
        process.kill()
        process.wait()
        with pytest.raises(tvm_measure.MeasureError, match="ended"):
            worker.seconds(function, made)
        assert 0 < worker.seconds(function, made) < 1
        last = worker._running()
    assert last.poll() is not None


@pytest.fixture
def tracker() -> Iterator[str]:
    """A tracker and a server of TVM's own on this machine, as ``HOST:PORT/KEY``.

    For one session: the server's process for it dies when it ends, and the server with it.
    """
    code = (
        "import sys, time; from tvm.rpc.tracker import Tracker; from tvm.rpc.server import Server\n"
        "if __name__ == '__main__':\n"
        "    t = Tracker('127.0.0.1', port=29190, port_end=29290, silent=True)\n"
        "    s = Server('127.0.0.1', port=29090, port_end=29190, key='like-this', silent=True,\n"
        "               tracker_addr=('127.0.0.1', t.port))\n"
        "    print(t.port, flush=True); sys.stdin.read(); s.terminate(); t.terminate()\n"
    )
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "lend.py")
        script.write_text(code)
        process = subprocess.Popen(
            [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            yield f"127.0.0.1:{process.stdout.readline().strip()}/like-this"
            process.stdin.close()


@searches
@pytest.mark.skipif(not shutil.which("g++"), reason="Linking for another machine takes g++.")
def test_a_tracker_lends_the_machine_to_time_on(
    harness: Harness, tmp_path: Path, tracker: str, measured: list[int]
) -> None:
    module = model()
    compiled = harness.compile(module, tuned(tmp_path, trials=2, tracker=tracker))
    agrees(harness, compiled, module)
    assert measured[0] >= 2
    assert lines(tmp_path)


def test_a_tracker_that_is_not_there_is_said() -> None:
    function, made = one_function()
    with (
        tvm_measure.Worker("127.0.0.1:9/none") as worker,
        pytest.raises(tvm_measure.TrackerError, match=r"had from 127\.0\.0\.1:9/none"),
    ):
        worker.seconds(function, made)


def one_function() -> tuple[Any, Any]:
    from tvm import te

    from dynamo_ext.backends import tvm_schedule

    x = te.placeholder((64, 64), "float32", name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1, name="y")
    function = te.create_prim_func([x, y])
    return function, tvm_schedule.schedule(function)


def test_records_are_lines_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    function, made = one_function()
    database = tvm_database.Database(str(tmp_path))
    assert not database.has(function)
    assert database.schedule(function) is None
    database.add(function, tvm_schedule_plain(function), 2.0)
    database.add(function, made, 1.0)
    with database.path.open("a") as file:
        file.write('{"key": 1}\n{"key": "1", "seconds"')
    again = tvm_database.Database(str(tmp_path))
    assert len(again) == 1
    assert again.schedule(function).mod.script() == made.mod.script()


def test_what_was_settled_stays_whatever_was_faster_once(tmp_path: Path) -> None:
    function, made = one_function()
    database = tvm_database.Database(str(tmp_path))
    database.add(function, made, 1.0)
    database.add(function, tvm_schedule_plain(function), 2.0, settled=True)
    database.add(function, made, 0.5)
    for each in (database, tvm_database.Database(str(tmp_path))):
        assert each.schedule(function).mod.script() == tvm_schedule_plain(function).mod.script()


def tvm_schedule_plain(function: Any) -> Any:
    from dynamo_ext.backends import tvm_schedule

    return tvm_schedule.fresh(function)


def test_without_tuning_only_records_are_used(harness: Harness, tmp_path: Path) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path, tune=False)), module)
    assert not list(tmp_path.glob("*.jsonl"))


def test_an_interface_that_cannot_search_is_said_so(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tvm_target, "interface_version", lambda: "0.1.15.post2")
    found = BACKEND.probe()
    assert not found.available
    assert found.remedy == 'pip install "apache-tvm-ffi<0.1.15"'
    broken = {"compile": "", "serialise": "It cannot copy functions."}
    monkeypatch.setattr(tvm_target, "proof", lambda: broken)
    module = model()
    with torch.no_grad():
        torch.testing.assert_close(harness.compile(module, tuned(tmp_path))(X), module(X))
    assert harness.stages == ["lower"]


def test_progress_is_one_line_where_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    progress = tvm_tune.Progress("product", 1, 2, 3, 64, 20.0, 10.0, 5.0, 120.0)
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        tvm_tune.show(progress)
        assert ("1 of 2 (product), 3/64 trials" in stream.getvalue()) is expected
        assert "\n" not in stream.getvalue()


class Stopwatch:
    """Says a time for each schedule, by its name, in the place of the worker."""

    def __init__(self, times: dict[str, list[float]]) -> None:
        self.times = times

    def seconds(self, function: str, schedule: str, *, again: bool) -> float:
        assert function == "f"
        assert again
        return self.times[schedule].pop(0)


class Records:
    """What was settled, in the place of the database."""

    def __init__(self) -> None:
        self.settled: list[tuple[Any, ...]] = []

    def add(self, *facts: Any, settled: bool) -> None:
        assert settled
        self.settled.append(facts)


def final(times: dict[str, list[float]], measured: list[tuple[float, str]], patience: float) -> Any:
    """A search whose measurements are given, settled."""
    search = tvm_tune.Search.__new__(tvm_tune.Search)
    records = Records()
    search.__dict__ |= {
        "_task": tvm_tune.Task("f", "f", "rule"),
        "_fastest": measured,
        "_worker": Stopwatch(times),
        "_database": records,
    }
    search.settle(time.monotonic() + patience, 0.1)
    return records.settled


def test_a_schedule_that_was_only_lucky_gives_way_to_the_rule() -> None:
    times = {"rule": [2.0] * 5, "lucky": [3.0] * 5, "other": [2.5] * 5}
    assert final(times, [(1.0, "lucky"), (1.5, "other")], 60) == [("f", "rule", 2.0)]


def test_a_schedule_that_is_faster_each_time_stays() -> None:
    times = {"rule": [2.0] * 5, "fast": [1.1, 1.0, 9.0, 1.2, 1.1]}
    assert final(times, [(1.0, "fast")], 60) == [("f", "fast", 1.1)]


def test_without_room_nothing_is_settled() -> None:
    assert final({}, [(1.0, "fast")], 0.15) == []


def test_with_little_room_the_best_one_alone_is_timed_again() -> None:
    times = {"rule": [2.0] * 5, "fast": [3.0] * 5}
    assert final(times, [(1.0, "fast"), (1.5, "other")], 0.25) == [("f", "rule", 2.0)]


def test_nothing_measured_settles_nothing() -> None:
    assert final({}, [], 60) == []
