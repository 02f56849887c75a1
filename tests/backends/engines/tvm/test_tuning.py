"""MetaSchedule on small functions: what is measured, kept, found again and shown."""

from __future__ import annotations

import itertools
import json
import logging
import os
import signal
import subprocess
import sys
import time
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.tvm import target, tuning
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.journal import Journal
from dynamo_ext.timing.race import TimedCallable
from tests.magics.shell import interruptible
from tests.needs import needs

if TYPE_CHECKING:
    from collections.abc import Callable

needs("tvm")

BACKEND = registry.get("tvm_meta_schedule")
X = torch.randn(16, 64)

Harness = Any
Times = list[tuple[str, float]]


def model() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 96), nn.ReLU(), nn.Linear(96, 32)).eval()


def tuned(folder: Path, **options: Any) -> Any:
    settled = {"trials": 3, "budget": 600, "database": str(folder)}
    given = {spec.name: spec.default for spec in BACKEND.options} | settled | options
    return Compiler(BACKEND, given)


@pytest.fixture
def can_search(monkeypatch: pytest.MonkeyPatch) -> None:
    found = BACKEND.probe()
    if not found.available:
        pytest.skip(found.reason)
    # A function whose measurement another program has held up makes the others negligible.
    monkeypatch.setattr(tuning, "NEGLIGIBLE", 0.0)


searches = pytest.mark.usefixtures("can_search")


@pytest.fixture
def timed(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """One number for each schedule that is timed, which takes as many microseconds."""
    calls: list[int] = []

    def take(_: Any, module: str) -> tuple[Any, Any]:
        assert "tirx" in module
        calls.append(len(calls) + 1)
        return [calls[-1] * 1e-6], None

    monkeypatch.setattr(tuning, "measured", take)
    return calls


def seconds(folder: Path) -> list[float]:
    """The records of all searches, those that failed left out."""
    files = sorted(folder.rglob("database_tuning_record.json"))
    found = [json.loads(line)[1][1][0] for file in files for line in file.read_text().splitlines()]
    return [each for each in found if each < 1e9]


def agrees(harness: Harness, module: nn.Module, compiler: Any) -> None:
    torch._dynamo.reset()
    compiled = harness.compile(module, compiler)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(X), module(X), rtol=1e-4, atol=1e-5)
    assert set(harness.engines) == {"tvm_meta_schedule"}
    assert not harness.stages


SECOND = """
import sys, torch
from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.tvm import tuning
sys.path.insert(0, sys.argv[2])
from test_tuning import X, model
tuning.tune = None
module = model()
with torch.no_grad():
    options = {"trials": 3, "database": sys.argv[1]}
    found = torch.compile(module, backend=registry.compiler("tvm_meta_schedule", options))(X)
    torch.testing.assert_close(found, module(X), rtol=1e-4, atol=1e-5)
"""


@pytest.mark.sweep
@searches
def test_what_is_new_is_tuned_once(harness: Harness, tmp_path: Path) -> None:
    ours, numbers = logging.StreamHandler(), np.random.get_state()[1].copy()
    logging.getLogger("mine").addHandler(ours)
    agrees(harness, model(), tuned(tmp_path))
    # Two functions: three candidates and the rule of each, and what the race settled.
    assert len([each for each in seconds(tmp_path) if each]) == 8
    assert seconds(tmp_path).count(0) in {0, 2}
    assert ours.name in logging._handlers or ours in [r() for r in logging._handlerList]
    assert "tvm.s_tir.tensor_intrin" not in sys.modules
    assert target.package().get_global_func("s_tir.meta_schedule.using_ipython")() is False
    assert (np.random.get_state()[1] == numbers).all()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SECOND, str(tmp_path), str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr


@searches
def test_another_graph_has_its_own_functions_tuned_alone(
    harness: Harness, tmp_path: Path, timed: list[int]
) -> None:
    module = model()
    agrees(harness, module, tuned(tmp_path))
    assert len(timed) == 8
    agrees(harness, module, tuned(tmp_path))
    assert len(timed) == 8
    agrees(harness, nn.Sequential(*module, nn.Linear(32, 8)).eval(), tuned(tmp_path))
    assert len(timed) == 12


@searches
def test_the_whole_partition_decides(
    harness: Harness, tmp_path: Path, timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    del timed
    built: list[bool] = []
    program = tuning.Program
    make = program.built

    def spy(self: Any, schedule: Callable[[Any], Any]) -> Any:
        functions = self.functions.values()
        built.append(all(same(schedule(each), rules.schedule(each)) for each in functions))
        return make(self, schedule)

    def same(one: Any, other: Any) -> bool:
        return str(one.mod) == str(other.mod)

    # The third schedules are faster than the rules by themselves, so that the race decides.
    order = itertools.count(1)
    monkeypatch.setattr(tuning, "measured", lambda *_: ([1.0 / next(order)], None))
    monkeypatch.setattr(program, "built", spy)
    for verdict, kept in (("slower", [True]), ("faster", [False])):
        folder = tmp_path / verdict
        found = type("Speedup", (), {"verdict": verdict})
        monkeypatch.setattr(TimedCallable, "speedup_over", lambda *_, found=found: found)
        agrees(harness, model(), tuned(folder))
        assert built == [True, False]
        built.clear()
        agrees(harness, model(), tuned(folder))
        assert built == kept
        built.clear()


@searches
def test_an_interrupt_keeps_what_was_measured(
    harness: Harness, tmp_path: Path, timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    take = tuning.measured

    def stop(child: Any, module: str) -> Any:
        found = take(child, module)
        if len(timed) == 4:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(tuning, "measured", stop)
    compiled = harness.compile(model(), tuned(tmp_path))
    with interruptible(), torch.no_grad(), pytest.raises(KeyboardInterrupt):
        compiled(X)
    # Two by rule and two candidates of one function, which has its rule's record, too.
    assert len(timed) == 4
    assert len(seconds(tmp_path)) == 3
    agrees(harness, model(), tuned(tmp_path))
    assert len(timed) == 8


@searches
def test_a_search_ends_with_its_time(
    harness: Harness, tmp_path: Path, timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    # A second a measurement.
    clock = types.SimpleNamespace(monotonic=lambda: float(len(timed)), time_ns=time.time_ns)
    monkeypatch.setattr(tuning, "time", clock)
    agrees(harness, model(), tuned(tmp_path / "none", budget=0))
    assert not timed
    assert not (tmp_path / "none").exists()
    agrees(harness, model(), tuned(tmp_path, budget=20, trials=100))
    assert len(timed) == 20


@searches
def test_schedules_that_fail_leave_the_rules(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results = itertools.chain([([1e-5], None)] * 2, itertools.repeat((None, "It does not build.")))
    monkeypatch.setattr(tuning, "measured", lambda *_: next(results))
    agrees(harness, model(), tuned(tmp_path))
    assert {each for each in seconds(tmp_path) if each} <= {1e-5}


@searches
def test_a_child_that_ends_or_takes_too_long_is_started_again() -> None:
    from tvm import ir, te
    from tvm.support.popen_pool import PopenPoolExecutor

    x = te.placeholder((64, 64), "float32", name="x")
    y = te.compute((64, 64), lambda i, j: x[i, j] + 1, name="y")
    module = ir.save_json(rules.schedule(te.create_prim_func([x, y])).mod)
    child = PopenPoolExecutor(max_workers=1, timeout=60)
    assert 0 < tuning.measured(child, module)[0][0] < 1
    (worker,) = child._worker_map.values()
    worker._proc.kill()
    worker.join()
    assert "ChildProcessError" in tuning.measured(child, module)[1]
    child._timeout = 0.0
    assert "TimeoutError" in tuning.measured(child, module)[1]
    child._timeout = 60
    assert tuning.measured(child, "not a module")[0] is None
    assert 0 < tuning.measured(child, module)[0][0] < 1
    last = worker._proc
    child.shutdown()
    assert last.poll() is not None


@searches
def test_a_damaged_database_is_passed_over(
    harness: Harness, tmp_path: Path, timed: list[int]
) -> None:
    agrees(harness, model(), tuned(tmp_path))
    [workloads] = tmp_path.rglob("database_workload.json")
    text = workloads.read_text()
    mixed = "".join(reversed(text.splitlines(keepends=True)))
    for damaged in (text[: len(text) // 2], "", "[" * 1000, "null\n5\n", mixed):
        workloads.write_text(damaged)
        agrees(harness, model(), tuned(tmp_path, tune=False))
    agrees(harness, model(), tuned(tmp_path))
    assert len(timed) == 16
    agrees(harness, model(), tuned(tmp_path))
    assert len(timed) == 16


@searches
def test_a_schedule_that_does_not_fit_leaves_the_rules(
    harness: Harness, tmp_path: Path, timed: list[int]
) -> None:
    agrees(harness, model(), tuned(tmp_path))
    [records] = tmp_path.rglob("database_tuning_record.json")
    text = records.read_text()
    for change in (('"Split"', '"Fuse"'), ('"b0"', '"b77"'), ('"ComputeInline"', '"NoSuch"')):
        assert change[0] in text
        records.write_text(text.replace(*change))
        agrees(harness, model(), tuned(tmp_path, tune=False))
    assert len(timed) == 8


@searches
def test_without_a_folder_the_search_counts_for_itself(
    harness: Harness, tmp_path: Path, timed: list[int]
) -> None:
    (tmp_path / "file").touch()
    agrees(harness, model(), tuned(tmp_path / "file"))
    assert len(timed) == 8


def test_without_tuning_only_records_are_used(harness: Harness, tmp_path: Path) -> None:
    agrees(harness, model(), tuned(tmp_path, tune=False))
    assert not list(tmp_path.iterdir())


@searches
def test_what_it_searches_is_told(
    harness: Harness, tmp_path: Path, timed: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[str] = []
    monkeypatch.setattr(Journal, "tell", lambda _, words: told.append(words))
    agrees(harness, model(), tuned(tmp_path))
    assert timed
    assert told == ["searches schedules: 3 for each function (2), 600 s at most", ""]
