"""A cell's text keeps the editor's line numbers, whatever stands above it."""

from __future__ import annotations

import pytest

import dynamo_ext
from tests.capture.live import Live


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("%%dynamo -b eager --quiet\ny = x + 1\nz = missing", 3),
        ("%%dynamo -b eager --quiet\n\n\ny = x + 1\n\nz = missing", 6),
        ("\n\n%%dynamo -b eager --quiet\ny = x + 1\nz = missing", 5),
        ("%%capture out\n%%dynamo -b eager --quiet\ny = x + 1\nz = missing", 4),
        ("%%dynamo -b eager --quiet\n!true\ny = x + 1\nz = missing", 4),
        ("%%dynamo -b eager --quiet\n%pwd\nz = missing", 3),
        ("%%dynamo -b eager --quiet\n    y = x + 1\n    z = missing", 3),
        ("%%dynamo -b eager --quiet\ny = '''\n\n'''\nz = missing", 5),
    ],
)
def test_errors_have_the_editors_line(cells: Live, text: str, line: int) -> None:
    ran = cells.run(text)
    assert "NameError" in ran.shown
    assert f", line {line}\n" in ran.shown
    assert f"----> {line} " in ran.shown


def test_the_report_has_the_editors_lines(cells: Live) -> None:
    report = cells.report("\n\ny = x + 1\n\nz = y * 2")
    assert report.cell is not None
    assert report.cell.source.splitlines()[3] == "y = x + 1"
    lines = [op.line.line for op in report.graphs[0].operations if op.opcode == "call_function"
             and op.line]  # fmt: skip
    assert lines == [4, 6]


def test_getsource_finds_functions_of_a_cell(cells: Live) -> None:
    cells.well("%%dynamo -b eager --quiet\ndef f(v):\n    return v + 1\ny = f(x)")
    cells.well("import inspect\ntext = inspect.getsource(f)")
    assert cells.names["text"] == "def f(v):\n    return v + 1\n"


def test_a_semicolon_silences(cells: Live) -> None:
    assert [o[0] for o in cells.well("%%dynamo -b eager --quiet\nx + 1;").outputs] == []
    shown = cells.well("%%dynamo -b eager --quiet\nx + 1")
    assert [o[0] for o in shown.outputs] == ["result"]


def test_future_imports_carry_over(cells: Live) -> None:
    cells.well(
        "%%dynamo -b eager --quiet\nfrom __future__ import annotations\ndef f(v: nope): pass"
    )
    cells.well("%%dynamo -b eager --quiet\ndef g(v: nope): return v + 1\ny = g(x)")
    cells.well("def h(v: nope): pass")
    for name in "fgh":
        assert cells.names[name].__annotations__ == {"v": "nope"}


def test_shell_and_magic_lines_run(cells: Live) -> None:
    ran = cells.well("%%dynamo -b eager --quiet\nout = !echo hello\ny = x + 1\n%time z = y * 2")
    assert list(cells.names["out"]) == ["hello"]
    assert "Wall time" in ran.out or "time" in ran.out
    assert cells.names["z"].tolist() == [2, 4, 6]


def test_braces_and_dollars_are_not_expanded(cells: Live) -> None:
    cells.well("%%dynamo -b eager --quiet\ns = '{x} $x'\ny = x + 1")
    assert cells.names["s"] == "{x} $x"


def test_a_cell_magic_inside_is_run(cells: Live) -> None:
    ran = cells.well("%%dynamo -b eager --quiet\n%%time\ny = x + 1")
    assert "time" in ran.out.lower()
    assert cells.names["y"].tolist() == [1, 2, 3]


def test_the_title_is_the_cells_number(cells: Live) -> None:
    number = cells.shell.execution_count
    assert cells.report("y = x + 1").title == f"Cell In[{number}]"
    assert cells.report("y = x + 1").title == f"Cell In[{number + 1}]"
    assert dynamo_ext.last_report().title == f"Cell In[{number + 1}]"
