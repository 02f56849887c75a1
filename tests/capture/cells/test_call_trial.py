"""Graphs that a library's loop calls run both ways; what the engine does not gain is Python's."""

from __future__ import annotations

import importlib
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.capture.cells import runner, turn_trial
from dynamo_ext.capture.cells.call_trial import CallTrial
from dynamo_ext.capture.listen.run_log import RunLog
from dynamo_ext.capture.listen.small_graphs import CALLS
from dynamo_ext.timing.first_run import FirstRun, within
from tests.auto.conftest import Company

if TYPE_CHECKING:
    from pathlib import Path

    from tests.capture.live import Live

TURNS = 2 * turn_trial._EACH + 1
"""Calls of the anchor from which on the outcome is known: each ends the turn before."""


class Entry(SimpleNamespace):
    """A graph, told from others by identity."""

    __hash__ = object.__hash__


class Loop:
    """A library's loop of two graphs, whose turns take seconds of a clock of the test's own."""

    def __init__(self, engine: float, eager: float, backend: str = "onnxrt") -> None:
        self.now = 0.0
        self.kept: list[tuple[float, ...]] = []
        self.in_long_loop = False
        self.trial = CallTrial(lambda: self.in_long_loop, self._keep, clock=lambda: self.now)
        self.run = RunLog()
        self.graphs = [
            Entry(name=name, backend=backend, draws=False, is_left_to_python=False)
            for name in ("loss", "step")
        ]
        self._seconds = {"engine": engine, "eager": eager}

    def _keep(self, *outcome: float) -> None:
        self.kept.append(outcome)

    def turns(self, count: int, *args: Any) -> list[list[str]]:
        """What ran the calls of each turn."""
        return [[self._call(graph, args) for graph in self.graphs] for _ in range(count)]

    def _call(self, graph: Any, args: Any) -> str:
        counted = self.run.calls.setdefault(graph, SimpleNamespace(count=0))
        call: Any = SimpleNamespace(eager="eager")
        way: Any = self.trial.way(self.run, graph, call, args)
        way = way if way == "eager" else "engine"
        counted.count += 1
        self.now += self._seconds[way]
        return way


@pytest.mark.parametrize(
    ("engine", "eager", "stays"), [(3, 1, "eager"), (1, 1, "eager"), (1, 3, "engine")]
)
def test_each_call_runs_once_and_the_faster_way_stays(
    engine: float, eager: float, stays: str
) -> None:
    loop = Loop(engine, eager)
    assert loop.turns(CALLS) == [["engine"] * 2] * CALLS
    tried = loop.turns(TURNS - 1)
    assert tried == [["engine"] * 2, ["eager"] * 2] * turn_trial._EACH
    assert loop.turns(3) == [[stays] * 2] * 3
    assert loop.kept == [(2 * engine, 2 * eager)]
    found = loop.trial.of_run(loop.run, 0.0)
    assert found.line == 0
    assert found.turns == (0 if stays == "eager" else CALLS + TURNS + 2)
    assert [each.is_left_to_python for each in loop.graphs] == [stays == "eager"] * 2


@pytest.mark.parametrize("why", ["few", "long loop", "late", "history", "draws"])
def test_there_is_no_trial_where_it_would_tell_nothing(why: str) -> None:
    loop = Loop(3, 1, backend="inductor")
    loop.in_long_loop = why == "long loop"
    loop.graphs[1].draws = why == "draws"
    history = [torch.ones(2, requires_grad=True) * 2] if why == "history" else []
    with within(FirstRun(0.0 if why == "late" else 60.0)):
        ways = loop.turns(CALLS if why == "few" else 3 * CALLS, *history)
    assert {way for turn in ways for way in turn} == {"engine"}
    assert loop.trial.is_python is None


def test_a_trial_goes_on_in_the_next_run_and_ends_there_before_a_first_one_would() -> None:
    loop = Loop(3, 1)
    loop.turns(CALLS + 5)
    later = Loop(3, 1)
    later.graphs = loop.graphs
    later.trial.go_on_with(loop.trial)
    found = later.turns(CALLS)
    assert found[: CALLS // 2] == [["engine"] * 2] * (CALLS // 2)
    assert ["eager"] * 2 in found
    assert later.trial.is_python
    assert later.kept


def test_a_graph_that_is_called_once_runs_in_the_engine_whatever_turn_it_is() -> None:
    loop = Loop(3, 1)
    ways = loop.turns(CALLS + 2)
    assert ways[-1] == ["eager"] * 2
    loop.graphs = [Entry(name="last", backend="onnxrt", draws=False, is_left_to_python=False)]
    assert loop.turns(1) == [["engine"]]


LIBRARY = """
import torch

class Trainer:
    def __init__(self):
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
        self.optimizer = torch.optim.SGD(self.net.parameters(), lr=0.1)

    def loss(self, x):
        y = self.net(x)
        z = torch.stack([y.sin(), y.cos(), y.exp().log1p()]).logsumexp(0)
        return (z - torch.rand_like(z)).pow(2).mean() + y.abs().mean() * 0.1

    def fit(self, x):
        for _ in range(60):
            self.optimizer.zero_grad()
            loss = self.loss(x)
            loss.backward()
            self.optimizer.step()
        return loss.item()
"""


@pytest.mark.parametrize("is_python", [True, False])
def test_a_librarys_training_loop_is_as_plain(
    cells: Live, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, is_python: bool
) -> None:
    (tmp_path / "fitted.py").write_text(LIBRARY)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(runner, "MachineLoad", Company)
    margin = 0.0 if is_python else 1e9
    monkeypatch.setattr(turn_trial, "_MARGIN", margin)
    cells.names["x"] = torch.linspace(-1, 1, 32).reshape(8, 4)
    expected = importlib.import_module("fitted").Trainer().fit(cells.names["x"])
    text = "import fitted\nend = fitted.Trainer().fit(x)"
    first = cells.report(text, "-b onnxrt")
    assert cells.names["end"] == pytest.approx(expected, rel=1e-4)
    [turns] = first.turns
    assert turns.line == 0
    said = [f.message for f in first.fallbacks if "loop outside of the cell" in f.message]
    assert bool(said) is is_python
    again = cells.report(text, "-b onnxrt")
    assert cells.names["end"] == pytest.approx(expected, rel=1e-4)
    frames = {frame.id: frame.name for frame in again.frames}
    often = [frames[graph.frame] for graph in again.graphs if graph.calls > CALLS]
    assert ("loss" in often) is not is_python
