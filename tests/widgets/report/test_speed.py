"""What a report says of its gain over eager."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import graphs, speed, summary
from tests.analysis.test_speed import TWICE, graph, report


@pytest.mark.parametrize(
    ("pairs", "said", "tile"),
    [
        ((), "", ""),
        (
            TWICE,
            (
                "By 3 pairs of calls, its graphs take about 1.00 s, and 2.00 s in eager: "
                "2.00× (1.90–2.10). Compiling has paid after 10 runs."
            ),
            "≈ 2× eager",
        ),
        (
            ((1.0, 0.9), (1.0, 1.0), (1.0, 1.1)),
            "By 3 pairs of calls, its graphs are about as fast as in eager.",
            "≈ 1× eager",
        ),
        (
            ((2.0, 1.0),) * 3,
            (
                "By 3 pairs of calls, its graphs take about 2.00 s, and 1.00 s in eager: "
                "0.50× (0.50–0.50)."
            ),
            "≈ 0.5× eager",
        ),
    ],
)
def test_the_whole_run(pairs: tuple[tuple[float, float], ...], said: str, tile: str) -> None:
    made = report(graph(pairs))
    assert speed.sentence(made) == said
    assert speed.tile(made) == tile
    assert said in summary.text(made).replace("\n", " ")
    assert dict(summary.counts(made)).get("Speed", "") == tile


def test_a_part_of_the_graphs_is_said_as_one() -> None:
    known = dataclasses.replace(graph(TWICE), run_seconds=9.2)
    made = report(known, dataclasses.replace(graph(), id="g1", run_seconds=0.8))
    assert speed.sentence(made) == (
        "By 3 pairs of calls, calls of 1 of 2 graphs (92% of the graphs' time) take about "
        "1.00 s, and 2.00 s in eager: 2.00× (1.90–2.10)."
    )
    assert speed.tile(made) == "≈ 2× eager in 1 of 2 graphs"


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
