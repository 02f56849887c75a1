"""Turns of a loop run both ways, each once; what is not faster captured stays Python."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.capture.cells import runner, turn_trial
from dynamo_ext.capture.cells.turn_trial import Trials, TurnTrial, carries_gradients
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.timing.first_run import FirstRun, within
from tests.auto.conftest import Company
from tests.capture.live import Live

if TYPE_CHECKING:
    from collections.abc import Callable

MANY = turn_trial._BEFORE + 2 * turn_trial._EACH
LOOP = f"total = torch.zeros(3)\nfor i in range({3 * MANY}):\n    total = total + x * i"


class Turns:
    """A loop whose turns take seconds of a clock of the test's own."""

    def __init__(self, captured: float, python: float) -> None:
        self.now = 0.0
        self.ways: list[str] = []
        self.kept: list[tuple[float, float]] = []
        self.trial = TurnTrial(1, lambda *found: self.kept.append(found), clock=lambda: self.now)
        self._seconds = {"captured": captured, "python": python}

    def run(self, count: int) -> None:
        for _ in range(count):
            self.trial.run(self._turn("captured"), self._turn("python"))

    def _turn(self, way: str) -> Callable[[], None]:
        def turn() -> None:
            self.ways.append(way)
            self.now += self._seconds[way]

        return turn


@pytest.mark.parametrize(
    ("captured", "python", "stays"), [(3, 1, True), (1, 1, True), (1, 3, False)]
)
def test_each_turn_runs_once_and_the_faster_way_stays(
    captured: float, python: float, *, stays: bool
) -> None:
    turns = Turns(captured, python)
    turns.run(MANY)
    assert len(turns.ways) == MANY
    assert turns.ways[: turn_trial._BEFORE] == ["captured"] * turn_trial._BEFORE
    assert turns.ways.count("python") == turn_trial._EACH
    assert turns.trial.is_python is stays
    assert turns.kept == [(captured, python)]
    found = turns.trial.as_record()
    assert (found.line, found.turns) == (1, 0 if stays else MANY)
    turns.run(3)
    assert turns.ways[-3:] == ["python" if stays else "captured"] * 3


def test_a_short_loop_is_never_tried() -> None:
    turns = Turns(3, 1)
    turns.run(turn_trial._BEFORE)
    assert set(turns.ways) == {"captured"}


@pytest.mark.parametrize(("turns", "goes_on"), [(20, True), (10, False)])
def test_a_trial_goes_on_in_the_next_run_unless_the_loop_is_short(
    turns: int, *, goes_on: bool, cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MachineLoad", Company)
    # Captured whole, it would have no turns.
    loop = LOOP.replace(str(3 * MANY), str(turns)) + "\n    seen = total.sum().item()"
    for _ in range(6):
        former, report = cells.report(loop), cells.report(loop)
    # The outcome is kept: each later run has it.
    assert bool(former.turns) is bool(report.turns) is goes_on
    assert torch.equal(cells.names["total"], torch.ones(3) * sum(range(turns)))
    assert all(each.turns in {0, turns} for each in report.turns)


def test_turns_that_compile_do_not_count() -> None:
    given = FirstRun()
    turns = Turns(1, 2)
    with within(given):
        turns.run(turn_trial._BEFORE)
        for _ in range(5):
            with given.working():
                pass
        given._spent += 1
        turns.run(2 * turn_trial._EACH)
    assert turns.trial.is_python is False


def test_nothing_is_decided_when_the_seconds_are_used_up() -> None:
    turns = Turns(3, 1)
    with within(FirstRun(0.0)):
        turns.run(2 * MANY)
    assert turns.trial.is_python is None
    assert set(turns.ways) == {"captured"}


def test_a_tensor_of_an_earlier_turn_with_a_history_ends_the_trial() -> None:
    history = torch.ones(2, requires_grad=True) * 2
    names = {"h": history, "x": torch.ones(2)}
    reads = compile("h = h * x", "", "exec")
    code = _as_function("global h\n    h = h * x")
    assert reads
    assert carries_gradients(code, names)
    assert not carries_gradients(_as_function("global h\n    h = x * 2\n    h = h + 1"), names)


def _as_function(body: str) -> Any:
    namespace: dict[str, Any] = {}
    exec(f"def turn():\n    {body}", namespace)
    return namespace["turn"].__code__


NOTEBOOK = "x = torch.ones(3)"


def test_the_report_says_what_runs_in_python_and_another_kernel_knows(
    cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "MachineLoad", Company)
    trials = Trials(LOOP, None)
    trials.of_loop(2).decide(5e-6, 1e-6)
    report = cells.report(LOOP)
    assert torch.equal(cells.names["total"], torch.ones(3) * sum(range(3 * MANY)))
    said = [f for f in report.fallbacks if "loop at line" in f.message]
    if said:
        assert said[0].harmless
        assert "--capture all" in said[0].remedy
        again = cells.report(LOOP)
        assert sum(graph.calls for graph in again.graphs) <= 1


def test_what_is_kept_is_found_by_text_line_and_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    first = Trials("text", "eager")
    first.keep(2, 5e-6, 1e-6)
    first.save(busy_cores=BUSY_CORES)
    assert Trials("text", "eager").of_loop(2).is_python is None
    first.save(busy_cores=0.0)
    assert Trials("text", "eager").of_loop(2).is_python is True
    assert not Trials("text", "eager").of_loop(2).is_remembered, "this kernel found it"
    with monkeypatch.context() as later:
        later.setattr(turn_trial, "_STARTED", time.time() + 1)
        assert Trials("text", "eager").of_loop(2).is_remembered
    others = [("text", "eager", 3), ("other", "eager", 2), ("text", "onnxrt", 2)]
    for text, backend, line in others:
        assert Trials(text, backend).of_loop(line).is_python is None
    monkeypatch.setattr(torch, "get_num_threads", lambda: 97)
    assert Trials("text", "eager").of_loop(2).is_python is None
    turn_trial.Outcomes().clear()


@pytest.mark.parametrize(
    "flag", ["--capture all", "--profile", "--fullgraph", "--opt random=torch"]
)
def test_a_cell_that_shows_what_was_asked_for_decides_nothing(cells: Live, flag: str) -> None:
    backend = "inductor" if "random" in flag else "eager"
    report = cells.report(LOOP, f"-b {backend} {flag}")
    assert not [f for f in report.fallbacks if "loop at line" in f.message]


def test_as_many_turns_as_documented_decide() -> None:
    assert MANY == 32
