"""What a board tells: whose turn it is, who is out, how long it may still take."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from dynamo_ext.backends import journal
from dynamo_ext.measure import progress
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.compare import compare_workload
from dynamo_ext.measure.multi_backend import MultiBackendGraph, compile_into
from dynamo_ext.measure.progress import Board, reporting_to
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import FunctionWorkload
from dynamo_ext.records.progress import RaceProgress
from dynamo_ext.timing.race import TimedCallable


@pytest.fixture
def passed(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(progress.time, "perf_counter", lambda: now[0])
    return now


def test_what_is_left_is_what_was_announced(passed):
    told = []
    board = Board("", ["eager", "a", "b"])
    with reporting_to(told.append):
        board.begin("plain")
        board.ends = 20.0
        for name in "ab":
            board.begin("compiling", name, "compiling")
            passed[0] += 3.0
            board.doing(f"{name} looks")
            board.end(name, "It is wrong." if name == "b" else "")
        board.timing(RaceProgress("", "timing", "a", left=1.0), [])
    assert [each.left for each in told] == [None, 20.0, 17.0, 17.0, 14.0, 14.0]
    assert [each.doing for each in told] == ["", "", "a looks", "", "b looks", ""]
    assert [each.state for each in told[-1].standings] == ["waiting", "ready", "out"]
    assert told[-1].standings[2].reason == "It is wrong."


def test_a_sentence_is_announced_where_somebody_hears_it():
    said = []
    with reporting_to(None, said.append):
        progress.announce("It takes long.")
    progress.announce("This has no listener.")
    assert said == ["It takes long."]


def looking(graph, inputs):
    journal.current().tell("it looks around")
    journal.current().tell("")
    return graph


def test_a_comparison_tells_what_a_backend_says_it_does():
    reported = []
    workload = FunctionWorkload(torch.nn.Linear(4, 4), [torch.ones(2, 4)])
    with reporting_to(reported.append), torch.no_grad():
        compare_workload(workload, candidates_of([looking]), Settings(rounds=6))
    said = [each for each in reported if each.doing]
    assert [(each.phase, each.doing) for each in said] == [("compiling", "it looks around")]


def test_a_race_of_a_graph_tells_it_too():
    reported = []
    graph = torch.fx.symbolic_trace(torch.nn.Linear(4, 4))
    switch = MultiBackendGraph(0, graph, {"eager": graph})
    with reporting_to(reported.append):
        compile_into(switch, {"ts": looking}, [torch.ones(2, 4)])
    assert [each.doing for each in reported] == ["", "it looks around", ""]


def test_a_race_is_told_with_medians():
    told = []
    one, two = TimedCallable("one", int, samples=[1.0, 3.0, 2.0]), TimedCallable("two", int)
    two.error = ValueError("no")
    board = Board("graph 2", ["one", "two"])
    step = RaceProgress("", "timing", "one", round=4, rounds=12, left=7.0)
    with reporting_to(told.append):
        board.timing(step, [one, two])
        board.timing(replace(step, round=5, left=None), [one, two])
    assert [(each.name, each.state, each.median) for each in told[0].standings] == [
        ("one", "ready", 2.0),
        ("two", "out", 0.0),
    ]
    assert (told[0].subject, told[0].candidate, told[0].round) == ("graph 2", "one", 4)
    assert [each.left for each in told] == [7.0, None]


def test_nobody_is_told_outside():
    told = []
    with reporting_to(told.append):
        pass
    Board("", ["a"]).begin("compiling", "a", "compiling")
    assert not told


def test_a_comparison_reports_every_phase():
    reported = []
    workload = FunctionWorkload(torch.nn.Linear(4, 4), [torch.ones(2, 4)])
    with reporting_to(reported.append), torch.no_grad():
        compare_workload(workload, candidates_of(["ts"]), Settings(rounds=6))
    phases = list(dict.fromkeys(each.phase for each in reported if not each.subject))
    assert phases == ["plain", "compiling", "checking", "timing", "memory"]
    assert {each.name: each.state for each in reported[-1].standings} == {
        "eager": "ready",
        "ts": "ready",
    }
    assert all(each.median > 0 for each in reported[-1].standings)
