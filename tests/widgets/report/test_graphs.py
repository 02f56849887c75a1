from __future__ import annotations

import dataclasses
import itertools
import time

import pytest

from dynamo_ext.analysis.placement import place_graph
from dynamo_ext.records.graph import Operation
from dynamo_ext.widgets.graph_drawing import svg
from dynamo_ext.widgets.graph_drawing.layout import BOX_WIDTH, arrange
from dynamo_ext.widgets.report import graphs


def test_overview_and_table_show_what_ran_where(reports, page):
    read = page(graphs.html(reports["mixed"])).text
    assert "g1 resume_in_cell (1/0) onnxrt + eager 3 1 610 ms 400 µs" in read
    assert "call_function linear torch._C._nn.linear" in read
    assert "p0 eager 1 0 0 s aten.sort.default onnxrt has no stable sort." in read
    assert "ended by a break: It prints." in read


def test_what_was_computed_when_the_graph_was_compiled_is_counted_apart(reports):
    clean = reports["clean"]
    folded = dataclasses.replace(clean.graphs[0], folded=4)
    told = graphs.describe(dataclasses.replace(clean, graphs=(folded,)), folded)
    assert "4 normalised ones computed at compile time" in told


def test_a_reused_graph_is_not_said_to_have_compiled(reports):
    clean = reports["clean"]
    reused = dataclasses.replace(clean.graphs[0], compiled_now=False)
    assert "reused" in graphs.text(dataclasses.replace(clean, graphs=(reused,)))


def test_static_html_keeps_a_big_graph_out_of_the_notebook(reports):
    html = graphs.html(reports["big"])
    assert len(html) < 200_000
    assert "1,300 more operations" in html
    assert "<svg" not in html


def test_inputs_are_read_from_args_and_kwargs():
    ops = [
        Operation("placeholder", "x", "x", "()", "{}"),
        Operation("placeholder", "dim", "dim", "()", "{}"),
        Operation("call_function", "a", "f", "(x, 'dim', torch.x)", "{'dim': 1}"),
        Operation("call_function", "b", "f", "(a, [%dim, x])", "{'out': a}"),
        Operation("call_function", "c", "f", "(dim=1, x(3))", "{}"),
    ]
    assert svg.inputs_of(ops) == {"x": [], "dim": [], "a": ["x"], "b": ["a", "dim", "x"], "c": []}


def test_parameters_fold_and_find_keeps_neighbours(reports):
    first = reports["mixed"].graphs[0]
    assert [op.name for op in svg.select(first)] == ["l_x_", "linear", "relu", "output"]
    assert len(svg.select(first, parameters=True)) == 5
    assert [op.name for op in svg.select(first, "RELU")] == ["linear", "relu", "output"]
    assert svg.select(first, "no such thing") == ()


def test_drawing_is_one_labelled_svg_with_a_box_a_node(reports, page):
    mixed = reports["mixed"]
    shown = mixed.graphs[1].operations
    made = svg.draw(mixed.graphs[1], place_graph(mixed, mixed.graphs[1]), shown, {"sort"})
    read = page(made)
    assert [tag for tag, _ in read.tags].count("rect") == len(shown)
    (_, (tag, drawn), *_) = read.tags
    assert (tag, drawn["role"]) == ("svg", "img")
    assert drawn["aria-label"] == "Drawing of graph g1: 5 nodes"
    assert not read.ids
    assert "dx-eager dx-hit" in made
    assert svg.draw(mixed.graphs[1], place_graph(mixed, mixed.graphs[1]), ()) == ""


def test_a_button_over_each_node_tells_all_of_it(reports, page, graph_of):
    mixed = reports["mixed"]
    shown = mixed.graphs[1].operations
    read = page(svg.draw(mixed.graphs[1], place_graph(mixed, mixed.graphs[1]), shown))
    buttons = [attributes for tag, attributes in read.tags if tag == "button"]
    assert [each["title"] for each in buttons] == [op.name for op in shown]
    about = {each["title"]: each["aria-label"].split("\n") for each in buttons}
    sort = next(op for op in shown if op.name == "sort")
    assert about["sort"][0].startswith(f"sort = {sort.target}(")
    assert "ran in eager" in about["sort"]
    assert about["sort"][-1].endswith(sort.line.code.strip())
    assert {each["tabindex"] for each in buttons} == {"0"}
    big = graph_of(61)
    read = page(svg.draw(big, place_graph(reports["clean"], big), big.operations))
    assert {a["tabindex"] for tag, a in read.tags if tag == "button"} == {"-1"}


def test_layers_go_down_and_boxes_of_a_row_do_not_touch():
    names = [f"n{i}" for i in range(40)]
    inputs = {n: [names[j] for j in {i // 2, i // 3} if j < i] for i, n in enumerate(names)}
    laid = arrange(names, inputs)
    for name, sources in inputs.items():
        for source in sources:
            assert laid.boxes[source][1] < laid.boxes[name][1]
    rows: dict[float, list[float]] = {}
    for x, y in laid.boxes.values():
        rows.setdefault(y, []).append(x)
        assert BOX_WIDTH / 2 <= x <= laid.width - BOX_WIDTH / 2
    for xs in rows.values():
        xs.sort()
        assert all(b - a >= BOX_WIDTH for a, b in itertools.pairwise(xs))


@pytest.mark.parametrize("blocks", [4, 40])
def test_blocks_over_a_residual_stream_stand_under_each_other(blocks):
    inputs: dict[str, list[str]] = {"x0": []}
    for i in range(blocks):
        inputs |= {f"a{i}": [f"x{i}"], f"b{i}": [f"x{i}"], f"c{i}": [f"a{i}", f"b{i}"]}
        inputs[f"x{i + 1}"] = [f"x{i}", f"c{i}"]
    assert arrange(list(inputs), inputs).width < 5 * BOX_WIDTH


def test_1500_nodes_are_drawn_soon(graph_of, reports):
    big = graph_of(1500)
    placement = place_graph(reports["clean"], big)
    start = time.process_time()
    made = svg.draw(big, placement, big.operations)
    assert time.process_time() - start < 3, "a tenth of a second where it was measured"
    assert made.count("<rect") == 1500
    assert svg.draw(big, placement, graph_of(1600).operations).count("<rect") == svg.MAX_NODES


def test_text_lists_operations_without_parameters(reports):
    made = graphs.text(reports["mixed"])
    assert "l_self_parameters_weight_  " not in made
    assert "… 1 parameter not listed" in made
    assert "1,476 more operations" in graphs.text(reports["big"])


def test_times_in_eager_are_told_where_they_were_asked_for(reports, page):
    profiled = reports["profiled"]
    first, second = profiled.graphs
    placement = place_graph(profiled, first)
    drawn = page(svg.draw(first, placement, first.operations))
    relu = next(a for tag, a in drawn.tags if tag == "button" and a["title"] == "relu")
    assert "2.00 ms in eager by itself, 67% of its graph's" in relu["aria-label"].split("\n")
    assert "67%" in drawn.text
    read = page(graphs.operations_table(first, first.operations)).text
    assert "Result In eager Line" in read
    assert "1.00 ms, 33%" in read
    assert "1.00 ms, 33%" in graphs.text(profiled)
    assert "In eager" not in page(graphs.operations_table(second, second.operations)).text
    assert "in eager" not in graphs.text(reports["clean"])
