"""The tree of modules: what is alike together, its share, and where it ran."""

from __future__ import annotations

import dataclasses

import torch
from torch import nn

import dynamo_ext
from dynamo_ext.records.graph import Partition
from dynamo_ext.widgets.report import graphs, modules
from dynamo_ext.widgets.report.view import GraphPane
from tests.widgets.conftest import CLEAN
from tests.widgets.graph_drawing.test_folds import call, encoder


def test_alike_layers_are_one_row_with_the_share_of_them_all(page):
    graph = encoder(24)
    made = modules.html(CLEAN, graph, graph.operations)
    text = page(made).text
    assert text.startswith("Modules, by their number of operations 100% Encoder model 97 op")
    assert "99% Layer × 24 layers.0 to layers.23 96 operations in onnxrt" in text
    assert "25% Linear fc 24 operations in onnxrt" in text
    assert "74% relu, dropout and add 72 operations in onnxrt" in text
    assert "1% Embedding embed 1 operation" in text
    assert made.count("<details open") == 1, "the model alone"
    assert "--profile" in text
    assert len(made) < 3000


def test_rows_are_by_time_where_it_is_known(page):
    graph = encoder(24)
    timed = [
        dataclasses.replace(op, seconds=(3e-3 if op.target == "linear" else 1e-3))
        for op in graph.operations
        if op.opcode.startswith("call")
    ]
    graph = dataclasses.replace(graph, operations=tuple(timed))
    text = page(modules.html(CLEAN, graph, graph.operations)).text
    assert text.startswith("Modules, by the time of their operations in eager 100%")
    assert "50% Linear fc 72.0 ms, 24 operations in onnxrt" in text
    assert "--profile" not in text


def test_a_module_says_what_fell_back_inside(page):
    graph = encoder(24)
    parts = (
        Partition("p0", "eager", 1, ("relu",), captured=("relu_9",), role="inference"),
        Partition("p1", "onnxrt", 96, ("add",), captured=("add_9",), role="inference"),
    )
    names = [op.name for op in graph.operations if op.opcode.startswith("call")]
    rest = tuple(name for name in names if name != "relu_9")
    graph = dataclasses.replace(
        graph, partitions=(parts[0], dataclasses.replace(parts[1], captured=rest))
    )
    text = page(modules.html(CLEAN, graph, graph.operations)).text
    assert "Layer × 9" in text
    assert "4% Layer layers.9 4 operations, 3 in onnxrt and 1 in eager" in text
    assert "Layer × 14 layers.10 to layers.23 56 operations in onnxrt" in text


def test_what_repeats_together_is_no_module_of_its_own(page):
    model = ("m", "M")
    ops = []
    for index in range(6):
        for name in "ab":
            inner = (model, (f"m.{name}{index}", name.upper()))
            ops += [call(f"{name}{index}{k}", f"{name}{k}", at=inner) for k in range(2)]
    graph = dataclasses.replace(CLEAN.graphs[0], operations=tuple(ops))
    text = page(modules.html(CLEAN, graph, ops)).text
    assert "100% A and B × 6 a0 to a5 24 operations" in text
    assert "50% A a0 12 operations" in text
    assert "50% B b0 12 operations" in text


def test_an_mlp_of_single_operations(page):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(3, 4)

    def run(x):
        return model(x) + 1

    with dynamo_ext.optimize("eager") as session:
        run(x)
    (graph,) = session.report.graphs
    text = page(modules.html(session.report, graph, graph.operations)).text
    assert "75% Sequential model 3 operations in eager" in text
    assert "25% Linear 0 1 operation" in text
    assert "25% ReLU 1 1 operation" in text
    assert "25% add 1 operation" in text


def test_what_sets_a_mode_ran_in_no_engine(page):
    layers = nn.Linear(4, 4), nn.Linear(4, 2)

    def run(x):
        with torch.no_grad():
            y = layers[0](x)
        return layers[1](y)

    with dynamo_ext.optimize("eager") as session:
        run(torch.randn(3, 4))
    (graph,) = session.report.graphs
    text = page(modules.html(session.report, graph, graph.operations)).text
    assert "50% set_grad_enabled 2 operations With --profile" in text


def test_a_graph_without_modules_has_no_tree(reports, page):
    graph = reports["mixed"].graphs[0]
    assert not modules.html(reports["mixed"], graph, graph.operations)
    assert "Modules" not in page(graphs.html(reports["mixed"])).text


def test_a_cut_tree_counts_what_is_left_out(page):
    graph = encoder(24, odd=9)
    text = page(modules.html(CLEAN, graph, graph.operations, 2)).text
    assert "Layer × 9" in text
    assert "2 more modules." in text


def test_the_tree_is_in_static_html_and_searched_in_the_view(page):
    report = dataclasses.replace(CLEAN, graphs=(encoder(24),))
    assert "99% Layer × 24" in page(graphs.html(report)).text
    pane = GraphPane(report)
    pane.view.value = "Modules"
    assert "99% Layer × 24" in page(pane.body.value).text
    pane.find.value = "layers.7.fc"
    text = page(pane.body.value).text
    assert "1% Linear model.layers.7.fc 1 operation" in text
    assert "Layer × 24" not in text
    pane.find.value = "nowhere"
    assert page(pane.body.value).text == "0 matches"
