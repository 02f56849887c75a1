from __future__ import annotations

import dataclasses

import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis.placement import EAGER, FORWARD, operator, place_graph
from dynamo_ext.records.report import Fallback, Report


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ("aten.add.Tensor", "add"),
        ("torch.ops.aten.addmm.default", "addmm"),
        ("<built-in function add>", "add"),
        ("<built-in method relu of type object at 0x1>", "relu"),
        ("torch.nn.functional.linear", "linear"),
        ("add_", "add"),
    ],
)
def test_operator_names(target, name):
    assert operator(target) == name


def test_a_graph_with_one_engine_is_wholly_in_it(reports):
    mixed = reports["mixed"]
    placed = place_graph(mixed, mixed.graphs[0])
    assert (placed.label, placed.in_engine, placed.total) == ("onnxrt", 2, 2)
    assert {placed.engine_of(op) for op in mixed.graphs[0].operations} == {"onnxrt"}


def test_a_shared_graph_places_operations_by_what_became_of_them(reports):
    mixed = reports["mixed"]
    placed = place_graph(mixed, mixed.graphs[1])
    engines = {op.name: placed.engine_of(op) for op in mixed.graphs[1].operations}
    assert placed.label == "onnxrt + eager"
    assert engines["sort"] == EAGER
    assert engines["matmul"] == "onnxrt"
    assert engines["getitem"] == "", "nothing became of it"


def test_an_operation_is_not_placed_by_guess(reports):
    mixed = reports["mixed"]
    # As reports of earlier versions have it.
    parts = tuple(dataclasses.replace(p, captured=()) for p in mixed.graphs[1].partitions)
    graph = dataclasses.replace(mixed.graphs[1], partitions=parts)
    placed = place_graph(mixed, graph)
    assert {placed.engine_of(op) for op in graph.operations} == {""}


@pytest.mark.parametrize("stage", ["unavailable", "lower", "verify", "unsupported"])
def test_a_whole_graph_that_fell_back_is_eager(reports, stage):
    clean = reports["clean"]
    gave = Fallback(stage, "graph", "g0", "", "", "", "")
    placed = place_graph(dataclasses.replace(clean, fallbacks=(gave,)), clean.graphs[0])
    assert (placed.label, placed.in_engine) == (EAGER, 0)


def test_a_backend_that_is_not_here_ran_nothing_whatever_the_subject(reports):
    clean = reports["clean"]
    gone = Fallback("unavailable", "frame", "onnxrt", "", "", "", "")
    assert (
        place_graph(dataclasses.replace(clean, fallbacks=(gone,)), clean.graphs[0]).in_engine == 0
    )


def test_a_partition_that_fell_back_is_eager(reports):
    mixed = reports["mixed"]
    wrong = Fallback("verify", "partition", "g0:p0", "", "", "", "")
    report = dataclasses.replace(mixed, fallbacks=(wrong,))
    assert place_graph(report, mixed.graphs[0]).label == EAGER


def report_of(*, grad: bool) -> Report:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))

    def fn(x: torch.Tensor) -> torch.Tensor:
        hidden = layers(x)
        return layers(hidden) * torch.linalg.svdvals(hidden).sum()

    x = torch.ones(4, 8, requires_grad=grad)
    fast = dynamo_ext.optimize("ts", options={"verify": False})(fn)
    with torch.set_grad_enabled(grad):
        fast(x)
    report: Report = fast.report()
    return report


@pytest.mark.parametrize("grad", [False, True])
def test_equal_operators_are_told_apart_by_what_became_of_them(grad: bool) -> None:
    report = report_of(grad=grad)
    (graph,) = report.graphs
    parts = [p for p in graph.partitions if p.role in FORWARD]
    first, *_ = (op.name for op in graph.operations if op.target.endswith("linear"))
    assert all("" not in part.captured for part in parts)
    assert any(first in part.captured for part in parts)
    # As if what became of the first layer had been left to eager.
    names = {name for part in parts for name in part.captured}
    split = [
        dataclasses.replace(parts[0], captured=tuple(names - {first})),
        dataclasses.replace(parts[0], name="x", engine="eager", captured=(first,), reason="no"),
    ]
    placement = place_graph(report, dataclasses.replace(graph, partitions=tuple(split)))
    engines = {op.name: placement.engine_of(op) for op in graph.operations if op.name in names}
    assert engines == {name: "eager" if name == first else "ts" for name in names}


def test_an_operation_may_have_become_several_that_two_engines_ran() -> None:
    report = report_of(grad=False)
    (graph,) = report.graphs
    (part,) = graph.partitions
    other = dataclasses.replace(part, name="x", engine="eager", captured=part.captured[:1])
    placement = place_graph(report, dataclasses.replace(graph, partitions=(part, other)))
    (shared,) = [op for op in graph.operations if op.name == part.captured[0]]
    assert placement.engine_of(shared) == "ts + eager"
