"""Parts of a cell after a graph break that hold no graph."""

import pytest

from tests.capture.live import Live

JOINED = "y = x + 1\nprint(''.join([letters[i] for i in x.tolist()]))"
LATER = "y = x + 1\nn = [letters[i] for i in x.tolist()]\nprint(n)\nz = y * 2"


@pytest.fixture(autouse=True)
def _letters(cells: Live) -> None:
    cells.well("letters = 'abcdefghij'")


def compiling(cells: Live, text: str, line: str) -> list[bool]:
    """Whether each of five runs, which have other numbers, compiles."""
    found = []
    for run in range(5):
        cells.well(f"x = torch.arange({run}, {run} + 4)")
        found.append(cells.report(text, line).compile_seconds > 0)
    return found


def test_it_is_compiled_twice(cells: Live) -> None:
    assert compiling(cells, JOINED, "-b eager") == [True, True, False, False, False]
    ran = cells.well(f"%%dynamo -b eager --quiet\n{JOINED}")
    assert ran.out == "efgh\n"


def test_all_of_it_is_captured_where_that_is_asked_for(cells: Live) -> None:
    assert all(compiling(cells, JOINED, "-b eager --capture all"))


def test_a_part_before_another_graph_stays_captured(cells: Live) -> None:
    compiling(cells, LATER, "-b eager")
    report = cells.report(LATER)
    assert sum(graph.calls for graph in report.graphs) == 2
