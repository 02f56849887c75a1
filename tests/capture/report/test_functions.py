"""The user's functions outside the cell, as source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.capture.live import Live

OTHER = """
class Twice:
    @staticmethod
    def twice(v):
        return v * 2

def scaled(v):
    w = Twice.twice(v)
    print("here")
    return w.sin()
"""


def test_a_function_of_another_cell_is_source(cells: Live) -> None:
    cells.well(OTHER.strip())
    report = cells.report("y = scaled(x)\nz = torch.nn.functional.gelu(y)")
    found = {block.name.split(",")[0]: block for block in report.functions}
    assert set(found) == {"Twice.twice", "scaled"}, "a library's is not the user's"
    assert found["Twice.twice"].source.startswith("@staticmethod\ndef twice(v):\n    return")
    assert found["Twice.twice"].first_line == 2
    assert found["scaled"].source.endswith("    return w.sin()\n")


def test_an_operation_has_the_line_of_the_function_too(cells: Live) -> None:
    cells.well(OTHER.strip())
    report = cells.report("y = Twice.twice(x)\nz = y + 1")
    calls = [row for row in report.graphs[0].operations if row.opcode.startswith("call")]
    assert [row.line.line for row in calls if row.line] == [2, 3]
    assert [row.called and row.called.line for row in calls] == [4, None]


def test_code_without_a_file_has_no_source(cells: Live) -> None:
    cells.well("space = {}\nexec('def f(v):\\n    return v * 2', space)\nf = space['f']")
    assert cells.report("y = f(x)").functions == ()
