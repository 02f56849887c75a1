"""FX graphs as tables."""

from __future__ import annotations

import operator
from typing import TYPE_CHECKING

import torch
from torch import fx

from dynamo_ext.capture.events.graphs import operation_table

if TYPE_CHECKING:
    from dynamo_ext.records.graph import Operation
    from tests.capture.live import Live


def rows_of(build: object) -> tuple[Operation, ...]:
    graph = fx.Graph()
    build(graph)  # type: ignore[operator]
    return operation_table(fx.GraphModule(torch.nn.Module(), graph), None)


def test_targets_read_as_one_writes_them() -> None:
    def build(graph: fx.Graph) -> None:
        x = graph.placeholder("x")
        y = graph.call_function(torch.relu, (x,))
        y = graph.call_function(operator.add, (y, 1))
        y = graph.call_function(torch.ops.aten.add.Tensor, (y, x), {"alpha": 2})
        y = graph.call_function(torch.nn.functional.linear, (y, x))
        y = graph.call_function(torch.cat, ([x, y],), {"dim": 0})
        y = graph.call_method("view", (y, (1,)))
        graph.output((y,))

    rows = rows_of(build)
    assert [row.target for row in rows[1:-1]] == [
        "torch.relu",
        "operator.add",
        "aten.add.Tensor",
        "torch.nn.functional.linear",
        "torch.cat",
        "view",
    ]
    assert rows[3].kwargs == "alpha=2"
    assert rows[5].args == "[x, linear]"
    assert rows[6].args == "cat, (1,)"
    assert [row.opcode for row in rows] == [
        "placeholder", *["call_function"] * 5, "call_method", "output",
    ]  # fmt: skip


def test_long_arguments_are_cut() -> None:
    def build(graph: fx.Graph) -> None:
        graph.output(graph.call_function(torch.tensor, (list(range(1000)),)))

    args = rows_of(build)[0].args
    assert len(args) == 200
    assert args.endswith("…")


def test_a_cells_operations_have_their_lines(cells: Live) -> None:
    report = cells.report("y = x + 1\n\nz = (y\n     * 2)\nw = [z - i for i in range(2)]")
    (graph,) = report.graphs
    calls = [row for row in graph.operations if row.opcode.startswith("call")]
    assert [(row.target, row.line.line if row.line else 0) for row in calls] == [
        ("operator.add", 2),
        ("operator.mul", 4),
        ("operator.sub", 6),
        ("operator.sub", 6),
    ]
    assert all(row.line and row.line.in_cell for row in calls)
    assert next(row.line.code for row in calls if row.line) == "y = x + 1"
    assert all((row.dtype, row.shape) == ("float32", ("3",)) for row in calls)


def test_operations_of_called_functions_point_into_the_cell(cells: Live) -> None:
    cells.well("def helper(v):\n    return v.sin() + 1")
    report = cells.report("y = x * 2\nz = helper(y)")
    calls = [row for row in report.graphs[0].operations if row.opcode.startswith("call")]
    assert [row.target for row in calls] == ["operator.mul", "sin", "operator.add"]
    assert [row.line.line for row in calls if row.line] == [2, 3, 3]


def test_symbolic_sizes_are_text(cells: Live) -> None:
    report = cells.report("y = x + 1", "-b eager --dynamic")
    (row,) = [row for row in report.graphs[0].operations if row.opcode == "call_function"]
    assert row.shape is not None
    assert not row.shape[0].isdigit()


def test_the_source_is_pythons(cells: Live) -> None:
    source = cells.report("y = x + 1").graphs[0].source
    assert "def forward(" in source
    assert "+ 1" in source


def test_modules_are_named_as_the_user_does(cells: Live) -> None:
    cells.well(
        "block = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())\n"
        "nets = {'first': torch.nn.Sequential(block)}"
    )
    report = cells.report("y = nets['first'](x) + 1")
    calls = [row for row in report.graphs[0].operations if row.opcode.startswith("call")]
    assert [row.module for row in calls] == ["nets['first'].0.0", "nets['first'].0.1", ""]
    assert calls[0].modules == (
        ("nets['first']", "Sequential"),
        ("nets['first'].0", "Sequential"),
        ("nets['first'].0.0", "Linear"),
    )
    (weight, _) = [row for row in report.graphs[0].operations if "parameters" in row.name]
    assert weight.module == "nets['first'].0.0"
