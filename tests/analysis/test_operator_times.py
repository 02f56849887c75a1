"""Time by operator, from a record."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.placement import operator_times, place_graph
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Report


def timed(name: str, target: str, seconds: float, line: int) -> Operation:
    at = SourceLine("cell", line)
    return Operation("call_function", name, target, "()", "{}", seconds=seconds, line=at)


def test_equal_operators_are_added_over_graphs_and_calls() -> None:
    first = (timed("a", "torch.relu", 1e-3, 2), timed("b", "aten.relu.default", 3e-3, 4))
    graph = Graph("g0", "0/0", "eager", first, "", 0.0, compiled_now=True, calls=2, run_seconds=1.0)
    other = dataclasses.replace(graph, id="g1", operations=(timed("c", "torch.add", 2e-3, 5),))
    uncalled = dataclasses.replace(other, id="g2", calls=0)
    report = Report("optimize", "eager", "t", None, 1.0, 0.0, graphs=(graph, other, uncalled))
    relu, add = operator_times(report)
    assert (relu.name, relu.calls, relu.engines) == ("relu", 4, ("eager",))
    assert relu.seconds == pytest.approx(8e-3)
    assert relu.share == pytest.approx(8 / 12)
    assert (add.name, add.calls) == ("add", 2)


def test_without_times_there_is_nothing() -> None:
    assert operator_times(Report("optimize", "eager", "t", None, 1.0, 0.0)) == ()


def test_what_sets_a_mode_is_no_operator_of_an_engine() -> None:
    mode = timed("no_grad", "torch._C._set_grad_enabled", 1e-3, 2)
    both = (mode, timed("b", "torch.relu", 3e-3, 3))
    graph = Graph("g0", "0/0", "onnxrt", both, "", 0.0, compiled_now=True, calls=1, run_seconds=1.0)
    report = Report("optimize", "onnxrt", "t", None, 1.0, 0.0, graphs=(graph,))
    (relu,) = operator_times(report)
    assert (relu.name, relu.share) == ("relu", 1.0)
    assert [place_graph(report, graph).engine_of(op) for op in both] == ["", "onnxrt"]
    plain = dataclasses.replace(graph, backend="eager")
    assert place_graph(report, plain).engine_of(mode) == "eager"
