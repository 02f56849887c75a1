"""A graph of a cell is eager's until a hundred runs of it would repay compiling a candidate."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from dynamo_ext.auto import compile_costs
from dynamo_ext.auto.waiting_race import WaitingRace
from dynamo_ext.backends.journal import Journal
from dynamo_ext.timing.first_run import FirstRun, within


class Racer:
    """Stands for what races."""

    absent: tuple[Any, ...] = ()

    def __init__(self) -> None:
        self.compiled: list[str] = []
        self.raced: list[float] = []

    def compile(self, compilers: Any, inputs: Any) -> None:
        assert isinstance(inputs[0], torch.Tensor)
        self.compiled += compilers

    def race(self, args: Any, budget: float) -> None:
        assert args
        self.raced.append(budget)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x * 0


@pytest.fixture
def racer() -> Racer:
    return Racer()


@pytest.fixture(autouse=True)
def _costs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_costs, "_seen", {"onnxrt": 0.1, "inductor": 10.0})


class Slowly:
    """A clock on which a call takes ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.now, self._half = 0.0, seconds / 1

    def __call__(self) -> float:
        self.now += self._half
        return self.now


def waiting(racer: Racer, seconds: float) -> tuple[WaitingRace, Journal]:
    journal = Journal()
    graph = symbolic_trace(lambda x: (x + 1) * 2)
    compilers: Any = {"inductor": None, "onnxrt": None}
    clock = Slowly(seconds)
    return WaitingRace(graph, racer, compilers, journal, clock=clock), journal  # type: ignore[arg-type]


def test_it_is_eagers_until_the_calls_of_a_run_add_up(racer: Racer) -> None:
    race, journal = waiting(racer, 0.002)
    with within(FirstRun(10.0)):
        for _ in range(2):
            assert race(torch.ones(2))[0] == 4
        assert not racer.compiled
        assert journal.contest is not None
        assert "not raced" in journal.contest.note
        race(torch.ones(2))
    # 0.3 s, and 0.1 s for each of two operations.
    assert racer.compiled == ["onnxrt"]
    assert racer.raced == [pytest.approx(0.006 * compile_costs.RUNS / 4)]
    assert [row.backend for row in racer.absent] == ["inductor"]
    assert "Compiling it takes some" in racer.absent[0].reason
    assert race(torch.ones(2))[0] == 0


def test_each_run_counts_anew(racer: Racer) -> None:
    race, _ = waiting(racer, 0.002)
    for _ in range(5):
        with within(FirstRun(10.0)):
            race(torch.ones(2))
            race(torch.ones(2))
    assert not racer.compiled


def test_nothing_is_raced_when_the_seconds_are_used_up(racer: Racer) -> None:
    race, _ = waiting(racer, 10.0)
    with within(FirstRun(0.0)):
        race(torch.ones(2))
    assert not racer.compiled
    with within(FirstRun(10.0)):
        race(torch.ones(2))
    assert racer.compiled == ["onnxrt", "inductor"]


def test_a_graph_that_is_compiled_where_it_is_captured_is_captured_anew(racer: Racer) -> None:
    marked: list[bool] = []
    race, journal = waiting(racer, 10.0)
    race._race_next = lambda: marked.append(True)
    with within(FirstRun(10.0)):
        assert race(torch.ones(2))[0] == 4
    assert marked
    assert journal.unfinished
    assert not racer.compiled


def test_what_compiling_took_here_is_expected_next_time() -> None:
    usual = compile_costs.expected("openvino", 100)
    compile_costs.note("openvino", 100, 3.0 + 0.3 + 50.0)
    assert compile_costs.expected("openvino", 100) == pytest.approx(50.3)
    assert usual < 10
