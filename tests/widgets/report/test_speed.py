"""What a report says of its gain over eager."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.common import CodeBlock
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import graphs, speed, summary
from tests.analysis.test_capture_advice import CUT
from tests.analysis.test_speed import PLAIN_LOOP, TWICE, graph, report

CELL = CodeBlock("Cell In[1]", "f.py", 1, "f(x)")


@pytest.mark.parametrize(
    ("pairs", "gained", "cost"),
    [
        (
            (),
            (
                "not measured: its graphs' calls take long beside their compiling; each run measures "
                "some more. %%dynamo compare -b ts measures it."
            ),
            "compiling took 10.0 s.",
        ),
        (
            TWICE,
            (
                "1.00 s where plain takes 2.00 s: 2.00× (1.58–2.52), by 3 pairs of calls of its "
                "graphs."
            ),
            "compiling took 10.0 s; it pays after 10 runs.",
        ),
        (
            ((1.0, 0.95), (1.0, 1.0), (1.0, 1.05)),
            (
                "unclear, 1.00 s where plain takes 1.00 s: 1.00× (0.79–1.26), by 3 pairs of calls of "
                "its graphs."
            ),
            "compiling took 10.0 s.",
        ),
        (
            ((1.0, 0.5), (1.0, 1.2), (1.0, 3.0)),
            "unclear, 1.00 s where plain takes 1.20 s: 1.20× (0.42–3.60), by 3 pairs of calls of its graphs.",
            "compiling took 10.0 s.",
        ),
        (
            ((1.0, 0.5),) * 3,
            "slower, 1.00 s where plain takes 500 ms: 0.50× (0.42–0.60), by 3 pairs of calls of its graphs.",
            "compiling took 10.0 s; it does not pay.",
        ),
    ],
)
def test_gain_and_cost(pairs: tuple[tuple[float, float], ...], gained: str, cost: str) -> None:
    made = dataclasses.replace(report(graph(pairs), seconds=10.0), cell=CELL)
    assert (speed.sentence(made), speed.cost(made)) == (gained, cost)
    assert ("slower than plain" in summary.text(made)) is gained.startswith("slower")


def test_calls_of_a_function_are_not_timed_in_pairs() -> None:
    assert speed.sentence(report(graph())) == (
        "not measured: calls of a function are not timed in eager, too, as those of a cell are. "
        "dynamo_ext.compare() measures it."
    )


def test_a_loop_whose_turns_are_faster_in_python_gains_nothing_and_lacks_nothing() -> None:
    made = report(seconds=1.0, compile_seconds=0.0, turns=(PLAIN_LOOP,), spent_before=9.0)
    made = dataclasses.replace(made, cell=CELL, backend="onnxrt", line="-b onnxrt")
    broken = dataclasses.replace(made, breaks=(CUT,))
    said = summary.text(broken)
    assert said.startswith("✓ plain Python is faster\n")
    assert "where one takes 600 µs; captured, it took 6.70 ms." in " ".join(said.split())
    earlier = dataclasses.replace(made, turns=(dataclasses.replace(PLAIN_LOOP, earlier=True),))
    assert "6.70 ms (measured by an earlier kernel)." in summary.lines(earlier)[0][1]
    assert "9.00 s before; it does not pay." in said
    assert "Next  Plain Python is faster in the loop at line 2." in said
    assert "%%dynamo -b onnxrt --capture all shows" in " ".join(said.split())
    assert "1 remark on what needs no change" in said


def test_what_was_spent_before_counts() -> None:
    ran = dataclasses.replace(graph(TWICE), run_seconds=1.0)
    made = report(ran, seconds=1.0, compile_seconds=0.0, spent_before=4.0)
    assert speed.cost(made) == (
        "nothing was compiled in this run; 4.00 s before; it pays after 4 runs."
    )
    made = dataclasses.replace(made, spent_before=0.0)
    assert speed.cost(made) == "nothing was compiled."


def test_a_column_where_any_graph_has_a_gain() -> None:
    known = graph(TWICE)
    unknown = dataclasses.replace(known, id="g1", pairs=(), run_seconds=3.0, calls=2)
    table = graphs.overview(report(known, unknown))
    assert table.headers[-3:] == ["Per call", "In eager", "Speed"]
    assert [row[-3:] for row in table.rows] == [
        ["1.00 s", "2.00 s", "1.9–2.1×"],
        ["1.50 s", "", ""],
    ]
    assert graphs.overview(report(unknown)).headers[-1] == "Per call"


def test_pairs_are_saved_and_a_report_of_before_has_none() -> None:
    made = report(graph(TWICE))
    record = made.to_dict()
    assert Report.from_dict(record) == made
    del record["graphs"][0]["pairs"], record["paired_seconds"]
    assert Report.from_dict(record).graphs[0].pairs == ()
