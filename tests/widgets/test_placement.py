from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.placement import EAGER, operator, place_graph
from dynamo_ext.records import Fallback


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


def test_a_shared_graph_places_operations_by_name(reports):
    mixed = reports["mixed"]
    placed = place_graph(mixed, mixed.graphs[1])
    engines = {op.name: placed.engine_of(op) for op in mixed.graphs[1].operations}
    assert placed.label == "onnxrt + eager"
    assert engines["sort"] == EAGER
    assert engines["matmul"] == "onnxrt", "the eager operation is accounted for: nothing else is"


def test_an_operation_is_not_placed_by_guess(reports):
    mixed = reports["mixed"]
    part = mixed.graphs[1].partitions[0]
    renamed = dataclasses.replace(part, targets=("aten.view_as_complex.default",))
    graph = dataclasses.replace(
        mixed.graphs[1], partitions=(renamed, mixed.graphs[1].partitions[1])
    )
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


def test_one_operator_left_out_of_a_whole_graph_is_eager_alone(reports):
    clean = reports["clean"]
    one = Fallback("unsupported", "graph", "g0", "aten.relu.default", "", "", "")
    placed = place_graph(dataclasses.replace(clean, fallbacks=(one,)), clean.graphs[0])
    assert dict(placed.shares) == {"onnxrt": 1, EAGER: 1}
    engines = {op.name: placed.engine_of(op) for op in clean.graphs[0].operations}
    assert (engines["linear"], engines["relu"]) == ("onnxrt", EAGER)
