"""``%dynamo history``, ``diff``, ``explain`` and the parts of a report, as a user types them."""

from __future__ import annotations

import pytest

import dynamo_ext
from dynamo_ext.magics.run_history import MOST, PastRuns
from tests.capture.live import Live

NOTEBOOK = """
x = torch.arange(3.)
def f(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y * 3
"""


def shown(ran: object) -> str:
    """Everything that a cell showed, as text."""
    return str(ran.out) + "".join(str(d) for d in ran.displays)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("part", "words"),
    [
        ("graphs", "operator.mul"),
        ("breaks", "Data-dependent branching"),
        ("guards", "must stay"),
        ("fallbacks", "No fallback"),
    ],
)
def test_a_part_of_the_last_report(cells: Live, part: str, words: str) -> None:
    cells.well("%%dynamo -b eager --quiet\ny = f(x)")
    assert words in shown(cells.well(f"%dynamo {part}"))


def test_history_has_a_row_for_each_run(cells: Live) -> None:
    assert "No %%dynamo cell has run yet" in shown(cells.well("%dynamo history"))
    cells.well("%%dynamo -b eager --quiet\ny = f(x)")
    cells.well("%%dynamo -b eager --quiet\nz = x + 1")
    assert shown(cells.well("%dynamo history")).count("optimize eager") % 2 == 0
    cells.well("%dynamo reset")
    assert "No %%dynamo cell has run yet" in shown(cells.well("%dynamo history"))


def test_diff_takes_the_last_two_runs(cells: Live) -> None:
    cells.well("%%dynamo -b eager --quiet\ny = f(x)")
    cells.well("%%dynamo -b eager --quiet\ny = x * 6")
    found = shown(cells.well("%dynamo diff"))
    assert "Breaks" in found
    assert "asks for the value of a tensor" in found


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("%dynamo diff", "nothing to compare yet"),
        ("%dynamo diff 1", "Write it as %dynamo diff"),
        ("%dynamo diff a b", "Write it as %dynamo diff"),
        ("%dynamo diff 998 999", "In[998] is not a stored %%dynamo run"),
        ("%dynamo diff 1 2 3", "Write it as %dynamo diff"),
        ("%dynamo explain", "Write it as %dynamo explain"),
        ("%dynamo history 3", "Write it as %dynamo history"),
    ],
)
def test_bad_input_gets_one_sentence(cells: Live, line: str, words: str) -> None:
    ran = cells.run(line)
    assert words in str(ran.error)


def test_explain_reports_and_leaves_the_namespace(cells: Live) -> None:
    before = set(cells.names)
    found = shown(cells.well("%dynamo explain f(x).sum()"))
    assert "its `if` asks for the value of a tensor" in " ".join(found.split())
    assert {name for name in set(cells.names) - before if not name.startswith("_")} == set()
    assert not any(name.startswith("__") for name in set(cells.names) - before)
    assert dynamo_ext.last_report().backend == "eager"
    assert "explain · eager · Cell In[" in found
    assert "explain eager" in shown(cells.well("%dynamo history"))


def test_explain_shows_the_users_error(cells: Live) -> None:
    ran = cells.run("%dynamo explain nope(x)")
    assert isinstance(ran.error, NameError)


def test_the_oldest_runs_are_let_go() -> None:
    past = PastRuns()
    for number in range(MOST + 5):
        past.keep(number, None, number)  # type: ignore[arg-type]
    assert len(past.reports()) == MOST
    assert past.pair([])[0] == MOST + 3  # type: ignore[comparison-overlap]


def test_the_same_cell_is_compared_with_itself() -> None:
    past = PastRuns()
    for number, cell in enumerate(["a", "b", "a"]):
        past.keep(number, cell, number)  # type: ignore[arg-type]
    assert past.pair([]) == (0, 2)
    past.keep(7, "c", 7)  # type: ignore[arg-type]
    assert past.pair([]) == (2, 7)
    assert past.pair(["In[1]", "7"]) == (1, 7)


def test_explain_shows_the_users_text(cells: Live) -> None:
    assert "nope(;" not in cells.run("%dynamo explain nope(").shown
    assert "nope(" in cells.run("%dynamo explain nope(").shown
    ran = cells.well("%dynamo explain f(x) # the sum")
    assert not any(out[0] == "result" for out in ran.outputs), "the value is not shown"
    assert "# the sum;" not in ran.out
