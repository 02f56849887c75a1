"""What a cell changes in place is changed, whatever its type, and ends a graph where torch loses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
import torch

from tests.capture.live import live
from tests.needs import captures_less

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


@pytest.mark.parametrize(
    ("made", "change"),
    [
        (lambda: np.ones(2), "value += 1"),
        (lambda: np.ones(2), "value *= 2"),
        (lambda: np.ones(2, int), "value <<= 1"),
        (lambda: bytearray(b"a"), "value += b'b'"),
    ],
)
def test_a_value_that_a_type_in_c_changes_in_place_ends_the_graph(
    made: Callable[[], Any], change: str
) -> None:
    expected: dict[str, Any] = {"value": made()}
    exec(change, expected)
    with live(
        "x = torch.ones(2)", f"def f(v):\n    global value\n    {change}\n    return v * 2"
    ) as cells:
        cells.names["value"] = value = made()
        report = cells.report(f"y = x * 2\n{change}\nz = y + 1")
        # From torch 2.15 on a bytearray's change does not end the graph.
        whole = isinstance(value, bytearray) and torch.__version__ >= "2.15"
        assert [graph.operation_count for graph in report.graphs] == ([2] if whole else [1, 1])
        assert cells.names["value"] is value
        assert np.array_equal(value, expected["value"])
        assert {found.exception for found in cells.report("y = f(x)").fallbacks} <= {"Unsupported"}


TYPES = """class Letters(list):
    pass
class Distinct(set):
    pass
class Named(dict):
    pass"""


@pytest.mark.parametrize(
    ("made", "change", "graphs"),
    [
        ("Letters('a')", "value += ['b']", 2),
        ("Letters('a')", "value.__iadd__(['b'])", 2),
        ("Letters('a')", "value.append('b')", 2),
        pytest.param(
            "0",
            "value = Letters('a')\nvalue += ['b']",
            2,
            marks=captures_less(
                "2.12", "makes a list of a list of one's own class made in the cell"
            ),
        ),
        ("Named(a=1)", "value |= {'b': 2}", 2),
        ("{'a'}", "value |= {'b'}", 1),
        ("Distinct('a')", "value |= {'b'}", 2),
        ("Distinct('a')", "value.add('b')", 2),
        ("Distinct('a')", "value.discard('a')", 2),
        pytest.param(
            "Distinct('a')",
            "value = 'a' in value",
            2,
            marks=captures_less("2.13", "captures nothing beside `in` of a set of one's own class"),
        ),
        ("0", "value = Distinct('a')", 2),
        ("0", "value = Distinct('a')\nvalue.add('b')", 2),
    ],
)
def test_a_collection_is_changed_as_without(made: str, change: str, graphs: int) -> None:
    with live("x = torch.ones(2)", TYPES) as cells:
        cells.well(f"value = {made}\n{change}")
        expected = cells.names["value"]
        cells.well(f"value = {made}")
        report = cells.report(f"y = x * 2\n{change}\nz = y + 1")
        found = cells.names["value"]
        assert type(found) is type(expected)
        assert found == expected
        # From torch 2.14 on fewer graphs end there.
        fewest = 1 if torch.__version__ >= "2.14" else graphs
        assert fewest <= len(report.graphs) <= graphs
        assert not report.fallbacks
