"""MetaSchedule on small functions: what is measured, kept, found again and shown."""

from __future__ import annotations

import io
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.tvm import session as tvm_session
from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.engines.tvm.tuning import database as tvm_database
from dynamo_ext.backends.engines.tvm.tuning import measure, search
from dynamo_ext.timing import clock
from tests.needs import needs
from tests.stores import at_once, kill_at_any_moment, on_a_full_disk, read_only

if TYPE_CHECKING:
    from collections.abc import Iterator

needs("tvm")

BACKEND = registry.get("tvm_meta_schedule")
searches = pytest.mark.usefixtures("can_search")

Harness = Any


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()


X = torch.randn(16, 64)


def tuned(folder: Path, **options: Any) -> Any:
    settled = {"trials": 3, "budget": 600, "database": str(folder)}
    given = {spec.name: spec.default for spec in BACKEND.options} | settled | options
    return Compiler(BACKEND, given)


@pytest.fixture
def can_search() -> None:
    found = BACKEND.probe()
    if not found.available:
        pytest.skip(found.reason)


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, ...]]:
    """For each measurement: the place of the task, its trials, its best and the rule's seconds."""
    found: list[tuple[Any, ...]] = []

    def note(task: search.Task, place: str, *_: object, finished: bool) -> None:
        found.append((place, task.trials, task.best, task.seconds, finished))

    monkeypatch.setattr(search, "show", note)
    return found


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many schedules were measured, one number for each search."""
    counts: list[int] = []
    tune = search.tune

    def spy(*args: Any) -> list[search.Task]:
        tasks = tune(*args)
        counts.append(sum(task.trials for task in tasks))
        return tasks

    monkeypatch.setattr(search, "tune", spy)
    # A function whose measurement another program has held up makes the others negligible.
    monkeypatch.setattr(search, "NEGLIGIBLE", 0.0)
    return counts


def lines(folder: Path) -> list[dict[str, Any]]:
    (file,) = folder.glob("*.jsonl")
    return [json.loads(line) for line in file.read_text().splitlines() if line]


def single(folder: Path) -> list[dict[str, Any]]:
    """The measurements of the searches themselves, without what a race settled."""
    return [line for line in lines(folder) if not line.get("settled")]


def agrees(harness: Harness, compiled: Any, module: nn.Module) -> None:
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), module(X), rtol=1e-4, atol=1e-5)
    assert set(harness.engines) == {"tvm_meta_schedule"}
    assert not harness.stages


SECOND = """
import sys, torch
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.tvm.tuning import search
sys.path.insert(0, sys.argv[2])
from test_search import X, model
counts = []
tune = search.tune
search.tune = lambda *args: counts.append(tune(*args)) or []
module = model()
options = {"trials": 3, "database": sys.argv[1]}
with torch.no_grad():
    x = torch.randn(16, 64)
    found = torch.compile(module, backend=registry.compiler("tvm_meta_schedule", options))(x)
    torch.testing.assert_close(found, module(x), rtol=1e-4, atol=1e-5)
print(counts)
"""


@pytest.mark.sweep
@searches
def test_what_is_new_is_tuned_once(
    harness: Harness, tmp_path: Path, told: list[tuple[Any, ...]], measured: list[int]
) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path)), module)
    assert measured == [6]
    assert len(single(tmp_path)) == 6
    places = [(f"{place} of 2", trial) for place in (1, 2) for trial in (1, 2, 3)]
    assert [each[:2] for each in told] == places
    assert [each[-1] for each in told] == [False] * 5 + [True]
    assert all(0 < best <= rule for _, _, best, rule, _ in told)
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


@pytest.mark.sweep
@searches
def test_the_learned_model_searches_too(
    harness: Harness, tmp_path: Path, told: list[tuple[Any, ...]], measured: list[int]
) -> None:
    module = nn.Sequential(nn.Linear(64, 32), nn.ReLU()).eval()
    compiler = tuned(tmp_path, trials=20, min_partition=1)
    agrees(harness, harness.compile(module, compiler), module)
    assert measured == [20]
    assert told[-1][1] == 20
    assert "tvm.s_tir.tensor_intrin" not in sys.modules
    ask = target.package().get_global_func("s_tir.meta_schedule.using_ipython")
    assert ask() is False


@searches
def test_a_search_without_time_leaves_the_rules(
    harness: Harness, tmp_path: Path, measured: list[int]
) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path, budget=0)), module)
    assert measured == [0]
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.sweep
@searches
def test_an_interrupt_keeps_what_was_measured(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measured: list[int]
) -> None:
    def stop(task: search.Task, *_: object, **__: object) -> None:
        if task.trials == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(search, "show", stop)
    module = model()
    compiled = harness.compile(module, tuned(tmp_path))
    with torch.no_grad(), pytest.raises(KeyboardInterrupt):
        compiled(X)
    assert len(lines(tmp_path)) == 2
    monkeypatch.setattr(search, "show", lambda *_, **__: None)
    torch._dynamo.reset()
    agrees(harness, harness.compile(module, tuned(tmp_path)), module)
    # The function that was being searched has records; the other one is new still.
    assert measured == [3]


@searches
def test_a_schedule_that_takes_too_long_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    _, made = one_function()
    with measure.Worker() as worker:
        assert 0 < worker.seconds(made) < 1
        process = worker._process._proc
        process.kill()
        process.wait()
        with pytest.raises(measure.MeasureError, match="ended"):
            worker.seconds(made)
        monkeypatch.setattr(measure, "CALL_SECONDS", 0.0)
        with pytest.raises(measure.MeasureError, match="more than 0 seconds"):
            worker.seconds(made)
        monkeypatch.setattr(measure, "CALL_SECONDS", 60.0)
        assert 0 < worker.seconds(made) < 1
        last = worker._process._proc
    assert last.poll() is not None


def one_function() -> tuple[Any, Any]:
    from tvm import te

    x = te.placeholder((64, 64), "float32", name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1, name="y")
    function = te.create_prim_func([x, y])
    return function, rules.schedule(function)


def test_records_are_lines_and_damaged_ones_are_passed_over(tmp_path: Path) -> None:
    function, made = one_function()
    database = tvm_database.Database(str(tmp_path))
    assert not database.has(function)
    assert database.schedule(function) is None
    database.add(function, rules.fresh(function), 2.0)
    database.add(function, made, 1.0)
    with database.path.open("ab") as file:
        file.write(b'\n{"key": 1}\n\xff\xfe\nnull\n5\n' + b"[" * 200_000 + b"\n")
        # Each would be the fastest of all.
        for seconds in ('"nan"', "NaN", "-Infinity", "-1", "0", "true", '"0.1"', "null"):
            line = (
                f'{{"key": "{tvm_database.key_of(function)}", "seconds": {seconds}, "trace": []}}\n'
            )
            file.write(line.encode())
        file.write(b'{"key": "1", "seconds"')
    again = tvm_database.Database(str(tmp_path))
    assert len(again) == 1
    assert again.schedule(function).mod.script() == made.mod.script()
    # What is written after a line that was cut off is a line of its own.
    again.add(function, rules.fresh(function), 0.5)
    last = tvm_database.Database(str(tmp_path)).schedule(function)
    assert last.mod.script() == rules.fresh(function).mod.script()


LOOP = """
import itertools, os
from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.tuning import database as tvm_database
target.version = target.cpu = target.threads = lambda: "x"
tvm_database.key_of = tvm_database.trace_of = lambda text: text
database = tvm_database.Database("")
print("begun", flush=True)
for number in ROUNDS:
    database.add(f"{os.getpid()} {number % 50}", "trace" * 5000, 1.0 + number)
"""


def test_the_database_with_others_on_a_bad_disk_and_killed(tmp_path: Path) -> None:
    few = LOOP.replace("ROUNDS", "range(50)")
    assert read_only(few, tmp_path) == "begun"
    assert on_a_full_disk(few, tmp_path) == "begun"
    at_once(few, tmp_path, 4)
    [path] = tmp_path.rglob("*.jsonl")
    lines = [line for line in path.read_bytes().splitlines() if line]
    assert len(lines) == 4 * 50
    kill_at_any_moment(LOOP.replace("ROUNDS", "itertools.count()"), tmp_path, times=4)
    # A kill within a write cuts that line off, and none but that.
    lines = [line for line in path.read_bytes().splitlines() if line]
    whole = [line for line in lines if line.endswith(b'"}')]
    assert len(whole) >= len(lines) - 4
    for line in whole:
        assert json.loads(line)["trace"] == "trace" * 5000
    script = LOOP.replace("ROUNDS", "()") + "assert len(database) >= 200\n"
    at_once(script, tmp_path, 1)


def test_what_was_settled_stays_whatever_was_faster_once(tmp_path: Path) -> None:
    function, made = one_function()
    database = tvm_database.Database(str(tmp_path))
    database.add(function, made, 1.0)
    database.add(function, rules.fresh(function), 2.0, settled=True)
    database.add(function, made, 0.5)
    for each in (database, tvm_database.Database(str(tmp_path))):
        assert each.schedule(function).mod.script() == rules.fresh(function).mod.script()


def test_without_tuning_only_records_are_used(harness: Harness, tmp_path: Path) -> None:
    module = model()
    agrees(harness, harness.compile(module, tuned(tmp_path, tune=False)), module)
    assert not list(tmp_path.glob("*.jsonl"))


def test_an_interface_that_cannot_search_is_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(target, "interface_version", lambda: "0.1.15.post2")
    found = BACKEND.probe()
    assert not found.available
    assert found.remedy == 'pip install "apache-tvm-ffi<0.1.15"'


def test_progress_is_one_line_where_somebody_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    task = search.Task("product", None, None, 2e-5, 1e-5, trials=3)
    for stream, expected in ((Terminal(), True), (io.StringIO(), False)):
        monkeypatch.setattr(sys, "stderr", stream)
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
        search.show(task, "1 of 2", 64, "5 of 120", finished=False)
        words = "1 of 2 (product), 3/64 trials, best 10 µs (by rule 20 µs), 5 of 120 s"
        assert (words in stream.getvalue()) is expected
        assert "\n" not in stream.getvalue()


class Program:
    """A partition of three functions, of which two were searched for."""

    def __init__(self) -> None:
        self.builds: list[str] = []

    def built(self, schedule: Any) -> dict[str, str]:
        self.builds.append(" ".join(schedule(name) for name in ("product", "norm", "known")))
        return {"main": self.builds[-1]}

    def inputs(self) -> list[Any]:
        return []


class Records:
    """What goes on record."""

    def __init__(self) -> None:
        self.settled: list[tuple[str, str, float]] = []

    def add(self, function: str, schedule: str, seconds: float, *, settled: bool) -> None:
        assert settled
        self.settled.append((function, schedule, seconds))


def build(
    monkeypatch: pytest.MonkeyPatch, found: dict[str, str], *, faster: bool
) -> tuple[str, list[str], list[tuple[str, str, float]]]:
    """The build that stays, what was built, and what is on record."""
    for name in ("key_of", "trace_of"):
        monkeypatch.setattr(search, name, lambda value: value)
    raced: list[tuple[str, str]] = []

    def race(challenger: str, holder: str, inputs: list[Any]) -> bool:
        assert inputs == []
        raced.append((challenger, holder))
        return faster

    monkeypatch.setattr(search, "faster", race)
    program, records = Program(), Records()
    tasks = [
        search.Task("product", "product", "P", 2.0, 1.0),
        search.Task("norm", "norm", "N", 0.4, 0.4),
    ]
    stays = search.better_build(program, tasks, lambda name: found[name], records)["main"]
    assert raced == ([tuple(program.builds)] if len(program.builds) > 1 else [])
    return stays, program.builds, records.settled


def test_what_is_faster_together_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"product": "p", "norm": "n", "known": "k"}
    assert build(monkeypatch, found, faster=True) == ("p n k", ["p n k", "P N k"], [])


def test_what_is_slower_together_goes_back_to_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"product": "p", "norm": "N", "known": "k"}
    stays, builds, settled = build(monkeypatch, found, faster=False)
    assert (stays, builds) == ("P N k", ["p N k", "P N k"])
    assert settled == [("product", "P", 2.0)]


def test_where_a_search_found_the_rules_there_is_nothing_to_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = {"product": "P", "norm": "N", "known": "k"}
    assert build(monkeypatch, found, faster=True) == ("P N k", ["P N k"], [])


def new() -> None:
    pass


def old() -> None:
    pass


def readings(monkeypatch: pytest.MonkeyPatch, times: dict[Any, Iterator[float]]) -> None:
    """Give each runner its seconds, in the place of the clock."""
    monkeypatch.setattr(clock, "seconds_per_call", lambda call, *_: next(times[call.func]))


def test_the_faster_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, {new: itertools.repeat(0.9), old: itertools.repeat(1.0)})
    assert search.faster(new, old, [])
    readings(monkeypatch, {new: itertools.repeat(1.0), old: itertools.repeat(0.9)})
    assert not search.faster(new, old, [])


def test_what_wins_every_other_round_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, {new: itertools.cycle((0.5, 1.1)), old: itertools.repeat(1.0)})
    assert not search.faster(new, old, [])


def test_the_inputs_are_like_the_partitions() -> None:
    state = torch.random.get_rng_state()
    x = torch.randn(4, 3)
    index = torch.tensor([1, 2])
    seen: list[tvm_session.Program] = []

    def build(program: tvm_session.Program) -> Any:
        seen.append(program)
        return program.built(rules.schedule)

    graph = make_fx(lambda x, i: (torch.index_select(x, 0, i) * 2,), tracing_mode="fake")(x, index)
    torch.random.set_rng_state(state)
    session = tvm_session.Session(graph, build)
    made = seen[0].inputs()
    assert [(t.shape, t.dtype) for t in made] == [(x.shape, x.dtype), (index.shape, index.dtype)]
    assert made[0].std() > 0
    assert not made[1].any()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(session.run(x, index)[0], x[index] * 2)
    # A module is scheduled as a copy, so that it can be built again.
    assert build(seen[0]) is not None
