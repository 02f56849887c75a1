"""A graph of a cell is eager's until a hundred runs of it would repay compiling a candidate."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx import symbolic_trace

from dynamo_ext.auto.waiting_race import RUNS, WaitingRace
from dynamo_ext.backends.journal import Journal
from dynamo_ext.timing import compile_costs
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
    monkeypatch.setattr(
        compile_costs, "seen", {"onnxrt": (10**9, 1e8, 1, 0.0), "inductor": (10**9, 1e10, 1, 0.0)}
    )


class Slowly:
    """A clock on which a call takes ``seconds``."""

    def __init__(self, seconds: float) -> None:
        self.now, self._half = 0.0, seconds / 1

    def __call__(self) -> float:
        self.now += self._half
        return self.now


def waiting(racer: Racer, seconds: float, **more: Any) -> tuple[WaitingRace, Journal]:
    journal = Journal()
    graph = symbolic_trace(lambda x: (x + 1) * 2)
    compilers: Any = {"inductor": None, "onnxrt": None}
    clock = Slowly(seconds)
    return WaitingRace(graph, racer, compilers, journal, clock=clock, **more), journal  # type: ignore[arg-type]


class Cell:
    """Runs of one cell, each of which takes so many seconds beside its compiling."""

    def __init__(self) -> None:
        self.now = 0.0
        self.last: FirstRun | None = None

    def run(self, seconds: float, *races: WaitingRace, given: float = 10.0) -> None:
        self.last = FirstRun(given, clock=lambda: self.now, before=self.last)
        with within(self.last):
            self.now += seconds
            for race in races:
                race(torch.ones(2))


def note(journal: Journal) -> str:
    assert journal.contest is not None
    return journal.contest.note


def test_a_graph_that_takes_little_of_the_cell_is_never_raced(racer: Racer) -> None:
    (little, told), (other, same) = waiting(racer, 1.0), waiting(racer, 1.0)
    cell = Cell()
    for _ in range(5):
        cell.run(51.0, little, other)
    assert not racer.compiled
    assert note(told) == note(same) == "Graphs that take under 2% of the cell's time are not raced."


def test_what_other_code_calls_is_no_part_of_a_cell(racer: Racer) -> None:
    race, _ = waiting(racer, 0.1)
    for _ in range(5):
        race(torch.ones(2))
    assert racer.compiled == ["onnxrt"]


def test_what_takes_the_most_of_the_cell_is_raced_first() -> None:
    racers = [Racer(), Racer(), Racer()]
    small, large, middle = (
        waiting(racer, seconds)[0]
        for racer, seconds in zip(racers, [12.0, 90.0, 50.0], strict=True)
    )
    cell = Cell()
    # The first run has no seconds for a race. It measures which graph takes longest.
    cell.run(200.0, small, large, middle, given=0.0)
    assert not any(racer.compiled for racer in racers)
    cell.run(200.0, small, middle)
    assert not any(racer.compiled for racer in racers)
    cell.run(200.0, small, middle, large)
    assert [bool(racer.compiled) for racer in racers] == [False, True, True]
    cell.run(200.0, small)
    assert all(racer.compiled for racer in racers)


def test_candidates_are_compiled_in_the_order_of_what_they_promise(racer: Racer) -> None:
    promises = {"inductor": 1.5, "onnxrt": 1.2}
    race, _ = waiting(racer, 10.0, promises=lambda: promises)
    Cell().run(20.0, race)
    assert racer.compiled == ["inductor", "onnxrt"]


def test_all_candidates_together_have_what_a_hundred_runs_take(racer: Racer) -> None:
    race, _ = waiting(racer, 10.0)
    clock: Any = race._clock
    racer.compile = lambda compilers, _: (  # type: ignore[method-assign]
        racer.compiled.extend(compilers),
        setattr(clock, "now", clock.now + 10.0 * RUNS),
    )
    Cell().run(20.0, race)
    assert racer.compiled == ["onnxrt"]
    assert [row.backend for row in racer.absent] == ["inductor"]
    assert "took as long as 100 runs" in racer.absent[0].reason


def test_it_is_eagers_until_the_calls_of_a_run_add_up(racer: Racer) -> None:
    race, journal = waiting(racer, 0.002)
    with within(FirstRun(10.0)):
        for _ in range(2):
            assert race(torch.ones(2))[0] == 4
        assert not racer.compiled
        assert journal.contest is not None
        assert "repay" in journal.contest.note
        race(torch.ones(2))
    # 0.3 s, and 0.1 s for each of two operations.
    assert racer.compiled == ["onnxrt"]
    assert racer.raced == [pytest.approx(0.006 * RUNS / 4)]
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
