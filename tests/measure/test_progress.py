"""What a board tells: whose turn it is, who is out, how long it may still take."""

from __future__ import annotations

import random
import statistics
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


def test_the_estimate_is_what_was_compiled_and_the_race(passed):
    told = []
    board = Board("", ["eager", "a", "b", "c"], 10.0, 5.0)
    with reporting_to(told.append):
        board.put("eager", "ready")
        for name in "abc":
            board.begin("compiling", name, "compiling")
            passed[0] += 3.0
            board.begin("checking", name)
            passed[0] += 1.0
            board.end(name, "It is wrong." if name == "b" else "")
        board.begin("memory")
    turns = [each for each in told if each.phase != "checking"]
    assert [each.left for each in turns] == [None, 4.0 * 2 + 15.0, 4.0 + 15.0, 5.0]
    assert [each.state for each in told[-1].standings] == ["ready", "ready", "out", "ready"]
    assert told[-1].standings[2].reason == "It is wrong."


def estimates(passed, order, taken):
    """What is left, as estimated once each but the last was compiled, and what really was."""
    told, board = [], Board("", ["eager", *order])
    board.put("eager", "ready")
    with reporting_to(told.append):
        for name in order:
            board.begin("compiling", name, "compiling")
            passed[0] += taken[name]
            board.end(name)
    real = [sum(taken[each] for each in order[index:]) for index in range(len(order))]
    return [each.left for each in told][1:], real[1:]


def test_the_longest_first_does_not_make_the_others_long(passed):
    taken = {"inductor": 20.0, "ts": 3.0, "onnxrt:int8": 12.0}
    found, real = estimates(passed, list(taken), taken)
    assert found == pytest.approx([13.5, 23 / 2.35])
    assert real == [15.0, 12.0]


def test_schedules_are_estimated_better_than_by_the_mean(passed):
    names, draw = ["inductor", "onnxrt", "ts", "openvino", "tvm"], random.Random(0)
    errors, mean_errors = [], []
    for _ in range(100):
        order, speed = draw.sample(names, 4), draw.uniform(1, 10)
        taken = {x: speed * progress._usual(x) * draw.lognormvariate(0, 0.5) for x in order}
        for index, (found, real) in enumerate(
            zip(*estimates(passed, order, taken), strict=True), start=1
        ):
            mean = statistics.fmean(taken[x] for x in order[:index]) * (len(order) - index)
            errors.append(abs(found - real) / real)
            mean_errors.append(abs(mean - real) / real)
    assert statistics.median(errors) < 0.4
    assert statistics.fmean(errors) < 0.6 * statistics.fmean(mean_errors)


def test_one_that_is_out_says_nothing_of_the_others(passed):
    told, board = [], Board("", ["a", "b", "c"])
    with reporting_to(told.append):
        for name, took, reason in (
            ("a", 0.0, "It is not installed."),
            ("b", 4.0, ""),
            ("c", 0, ""),
        ):
            board.begin("compiling", name, "compiling")
            passed[0] += took
            board.end(name, reason)
    assert [each.left for each in told] == [None, None, 4.0]


def test_what_a_backend_says_it_does_is_told_until_it_is_done(passed):
    told, board = [], Board("", ["a", "b"])
    with reporting_to(told.append):
        board.begin("compiling", "a", "compiling")
        passed[0] += 4.0
        board.end("a")
        board.begin("compiling", "b", "compiling")
        passed[0] += 1.0
        board.doing("b looks")
        board.doing("")
    assert [(each.candidate, each.doing, each.left) for each in told[1:]] == [
        ("b", "", 4.0),
        ("b", "b looks", 3.0),
        ("b", "", 3.0),
    ]


def looking(graph, inputs):
    journal.tell("it looks around")
    journal.tell("")
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
    board = Board("graph 2", ["one", "two"], 10.0, 5.0)
    step = RaceProgress("", "timing", "one", round=4, rounds=12, left=7.0)
    with reporting_to(told.append):
        board.timing(step, [one, two])
        board.timing(replace(step, round=5, left=6.0), [one, two], last=False)
    assert [(each.name, each.state, each.median) for each in told[0].standings] == [
        ("one", "ready", 2.0),
        ("two", "out", 0.0),
    ]
    assert (told[0].subject, told[0].candidate, told[0].round) == ("graph 2", "one", 4)
    assert [each.left for each in told] == [12.0, 15.0]


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
