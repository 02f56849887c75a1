"""Values that come into a frame."""

import pytest

from tests.capture.live import Live

LINES = ['s = "{:.3f}".format(x.sum().item())', "s = file.write(str(x.sum().item()))"]


@pytest.mark.parametrize("line", LINES)
def test_a_method_that_waits_for_a_break_is_known_again(cells: Live, line: str) -> None:
    cells.well("import io\nfile = io.StringIO()")
    for run in range(5):
        cells.well("x = torch.rand(4, 4)")
        report = cells.report(f"{line}\ny = torch.relu(x @ x)")
        assert sum(graph.calls for graph in report.graphs) == 2
        assert run < 3 or not report.compile_seconds
        cells.well(f"ours, s = s, None\n{line}")
        assert cells.names["ours"] == cells.names["s"]
