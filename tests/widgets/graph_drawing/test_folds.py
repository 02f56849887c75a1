"""Large graphs in few boxes."""

from __future__ import annotations

import dataclasses
import re

import pytest

from dynamo_ext.analysis.placement import Placement, place_graph
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.widgets.graph_drawing import svg
from dynamo_ext.widgets.graph_drawing.folds import Fold, fold, modules_of, parts
from dynamo_ext.widgets.report import graphs
from dynamo_ext.widgets.report.view import GraphPane
from tests.widgets.conftest import CLEAN

EAGER = Placement({"eager": 1})
LAYER = ("linear", "relu", "dropout", "add")


def call(name: str, target: str, *inputs: str, at: tuple[tuple[str, str], ...] = ()) -> Operation:
    args = ", ".join(inputs)
    return Operation("call_function", name, target, args, "", "float32", ("8",), modules=at)


def encoder(layers: int, *, odd: int = -1) -> Graph:
    """A graph of layers of four operations each, after an embedding; ``odd`` has another one."""
    model = ("model", "Encoder")
    ops = [Operation("placeholder", "x", "L_x_", "", "", modules=(model,))]
    ops.append(call("embedded", "embedding", "x", at=(model, ("model.embed", "Embedding"))))
    last = "embedded"
    for index in range(layers):
        path = f"model.layers.{index}"
        weight = f"l_model_layers_{index}_parameters_weight_"
        inner = (model, (path, "Layer"), (f"{path}.fc", "Linear"))
        ops.append(Operation("placeholder", weight, weight, "", "", modules=inner))
        for target in LAYER:
            at = inner if target == "linear" else inner[:2]
            name = f"{target}_{index}"
            used = "gelu" if target == "relu" and index == odd else target
            ops.append(call(name, used, last, *([weight] if target == "linear" else []), at=at))
            last = name
    ops.append(Operation("output", "output", "output", f"({last},)", ""))
    return dataclasses.replace(CLEAN.graphs[0], operations=tuple(ops))


def test_alike_layers_are_one_box_with_their_number():
    shown = svg.select(encoder(24))
    x, embedded, layers, output = fold(shown, EAGER)
    assert [box.name for box in (x, embedded, output)] == ["x", "embedded", "output"]
    assert (layers.title, layers.times, layers.size) == ("Layer", 24, 96)
    assert layers.path == "model.layers.0 to model.layers.23"
    assert [box.name for box in layers.inside] == [f"{target}_0" for target in LAYER]


def test_a_layer_unlike_the_others_is_a_box_of_its_own():
    found = [box for box in fold(svg.select(encoder(24, odd=9)), EAGER) if box.name != "x"]
    titles = [(box.title, box.times) for box in found if isinstance(box, Fold)]
    assert titles == [("Layer", 9), ("Layer", 14)]
    assert {f"{target}_9" for target in LAYER} < {box.name for box in found}, (
        "opened: there is room"
    )


def test_another_engine_is_not_alike():
    shown = svg.select(encoder(24))
    mixed = Placement(
        {"a": 1, "b": 1}, dict.fromkeys((op.name for op in shown), "a") | {"relu_9": "b"}
    )
    found = fold(shown, mixed)
    assert [box.times for box in found if isinstance(box, Fold)] == [9, 14]


@pytest.mark.parametrize("parameters", [False, True])
def test_every_operation_is_in_one_box(parameters):
    shown = svg.select(encoder(24, odd=9), parameters=parameters)
    found = [op for box in fold(shown, EAGER) for op in parts(box)]
    assert sorted(op.name for op in found) == sorted(op.name for op in shown)
    assert len(fold(shown, EAGER)) < 33


def test_a_chain_of_no_module_is_folded_by_what_repeats():
    ops = [Operation("placeholder", "x", "x", "", "")]
    for index in range(608):
        ops.append(call(f"add_{index}", "operator.add", ops[-1].name))
        ops.append(call(f"sin_{index}", "torch.sin", ops[-1].name))
    _, repeated = fold(ops, EAGER)
    assert (repeated.title, repeated.times, repeated.size) == ("add and sin", 608, 1216)
    assert len(repeated.inside) == 2


def test_a_small_graph_is_drawn_whole(reports):
    shown = reports["mixed"].graphs[1].operations
    assert fold(shown, EAGER) == shown


def test_a_folded_box_opens_in_place_and_says_what_it_has(page):
    graph = encoder(24)
    placement = place_graph(CLEAN, graph)
    made = svg.draw(graph, placement, fold(svg.select(graph), placement))
    read = page(made)
    assert "▸ Layer × 24" in read.text
    assert "96 operations" in read.text
    (about,) = [a["aria-label"] for tag, a in read.tags if tag == "summary"]
    assert about.split("\n")[:2] == [
        "Layer × 24: 96 operations",
        "model.layers.0 to model.layers.23",
    ]
    assert "Drawn is the first of 24 that are alike: Find shows another." in read.text
    # What the first layer reads from outside is drawn within.
    assert "shows another. embedded float32[8] linear" in read.text
    height = max(int(found) for found in re.findall(r'height="(\d+)"', made))
    assert height < 600
    assert len(made) < 20_000
    assert not read.ids


def test_time_of_a_box_is_that_of_all_its_operations(page):
    graph = encoder(24)
    timed = [
        dataclasses.replace(op, seconds=1.0 * op.opcode.startswith("call"))
        for op in graph.operations
    ]
    graph = dataclasses.replace(graph, operations=tuple(timed))
    placement = place_graph(CLEAN, graph)
    made = page(svg.draw(graph, placement, fold(svg.select(graph), placement)))
    assert "96 operations 99%" in made.text


def test_a_graph_is_named_by_its_modules(reports, page):
    assert modules_of(encoder(3).operations) == "model.embed to model.layers.2"
    first = [op for op in encoder(3).operations if op.name.endswith("_1")]
    assert modules_of(first) == "model.layers.1"
    assert modules_of(reports["mixed"].graphs[0].operations) == ""
    report = dataclasses.replace(CLEAN, graphs=(encoder(3), reports["mixed"].graphs[1]))
    read = page(graphs.html(report)).text
    assert "Graph Function Modules Ran in Operations" in read
    assert "g0 cell (0/0) model.embed to model.layers.2 onnxrt 13" in read
    assert (
        GraphPane(report).choice.options[0][0].startswith("g0 · model.embed to model.layers.2 · 13")
    )


def test_a_search_names_a_module():
    found = [op.name for op in svg.select(encoder(24), "layers.7.FC")]
    assert found == ["add_6", "linear_7", "relu_7"]
