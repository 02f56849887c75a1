"""Races in words and tables."""

from __future__ import annotations

import dataclasses

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.placement import coverage, place_graph
from dynamo_ext.records import autotune
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import blocks
from dynamo_ext.widgets.report import autotuning, static, summary, timing

ROWS = (
    autotune.GraphCandidateResult("eager", "slower", 0.002, 1.0, reason="onnxrt is faster."),
    autotune.GraphCandidateResult("onnxrt", "won", 0.001, 2.0, 1.9, 2.1, 1e-7),
    autotune.GraphCandidateResult(
        "<ts>", "wrong", error=0.5, reason="result: 3 of 4 values are off"
    ),
)


def headline_of(report):
    return " ".join(summary.text(report).split())


def graph(number, contest, **kwargs):
    return Graph(f"g{number}", "0/0", "auto", (), "", 1.0, compiled_now=True, calls=1,
                 run_seconds=0.1, normalised=4, contest=contest, **kwargs)  # fmt: skip


def shown(report):
    return blocks.html(autotuning.blocks(report))


def said(report):
    return blocks.text(autotuning.blocks(report))


def report(*held):
    graphs = tuple(graph(number, contest) for number, contest in enumerate(held))
    raced = sum(each.seconds for each in held if each is not None)
    return Report("optimize", "auto", "cell", None, 9.0, 0.5, graphs=graphs, race_seconds=raced)


WON = autotune.GraphRace("onnxrt", ROWS, seconds=3.0)
EAGER = autotune.GraphRace("eager", (dataclasses.replace(ROWS[0], outcome="won"),), remembered=True,
                raced_on="2026-11-21")  # fmt: skip


def test_the_sentence_counts_winners_and_cost():
    assert autotuning.sentence(report(WON, WON, EAGER)) == (
        "auto chose onnxrt for 2 graphs and eager for 1 graph. 1 race remembered. "
        "Racing took 6.00 s."
    )
    # In a later run the graphs are the same, and nothing is raced.
    later = dataclasses.replace(report(WON, WON), race_seconds=0.0)
    assert autotuning.sentence(later) == "auto chose onnxrt for 2 graphs."
    assert autotuning.sentence(report(None)) == shown(report(None)) == ""
    runs = [dataclasses.replace(report(held), program="it()") for held in (WON, EAGER)]
    assert ["In a program" in summary.details(run) for run in runs] == [True, False]


def test_what_graphs_came_to_together_is_said_once():
    rivals = (
        autotune.BaselineComparison("eager", 1.6, 1.5, 1.7),
        autotune.BaselineComparison("onnxrt", 0.9, 0.88, 0.92),
    )
    mix = dataclasses.replace(WON, confirmation=autotune.OnlineTrial(2, "mix", 15, rivals))
    assert autotuning.sentence(report(mix, mix)).endswith(
        "Measured during your own calls (up to 15 rounds), the choice for 2 graphs is 1.60× "
        "(1.50–1.70) as fast as eager and 0.90× (0.88–0.92) as fast as onnxrt for all: it is kept."
    )
    one = dataclasses.replace(WON, confirmation=autotune.OnlineTrial(2, "onnxrt", 15, rivals))
    assert autotuning.sentence(report(one)).endswith("for all: onnxrt runs instead.")
    rebuilt = Report.from_dict(report(mix).to_dict())
    assert rebuilt.graphs[0].contest == mix


def test_of_many_confirmations_those_that_changed_something_are_told():
    held = [
        dataclasses.replace(WON, confirmation=autotune.OnlineTrial(1, kept, rounds))
        for rounds, kept in enumerate(["mix", "mix", "eager", "mix", "mix"])
    ]
    said = autotuning.sentence(report(*held))
    assert said.index("eager runs instead") < said.index("it is kept")
    assert said.endswith("2 such confirmations more.")


def test_every_contestant_has_a_row_with_its_reason():
    html, text = shown(report(WON)), said(report(WON))
    for words in ("2.00× (1.90–2.10)", "✗ wrong", "3 of 4 values are off", "5.0e-01"):
        assert words in html
    assert "&lt;ts&gt;" in html
    assert "✓ won" in text
    assert text.index("onnxrt") < text.index("eager  ")


def test_one_round_has_no_interval():
    once = dataclasses.replace(ROWS[1], outcome="slower", low=2.0, high=2.0)
    text = said(report(dataclasses.replace(WON, contestants=(ROWS[0], once))))
    assert "2.00× in 1 round" in text
    assert "2.00–2.00" not in text


def test_a_remembered_race_says_from_when():
    assert "raced 2026-11-21" in shown(report(EAGER))


def test_the_winner_is_where_a_graph_ran():
    found = report(autotune.GraphRace("inductor"), EAGER)
    assert place_graph(found, found.graphs[0]).label == "inductor"
    assert place_graph(found, found.graphs[1]).label == "eager"
    assert coverage(found).in_engine == 4


def test_eager_as_the_fastest_is_no_failure():
    assert summary.status(report(EAGER)) == ("good", "✓ eager is fastest")
    assert "no backend was faster" in headline_of(report(EAGER))


def test_what_was_not_raced_is_no_result():
    made = report(autotune.GraphRace("eager", note="It takes too little time.", conclusive=False))
    assert summary.status(made) == ("part", "○ not raced")
    assert "none was raced" in headline_of(made)
    assert "candidates" in advise(made)[0].step


def test_the_report_has_them():
    assert "auto chose onnxrt" in static.html(report(WON))
    assert "Candidates" in static.html(report(WON))
    assert "auto chose onnxrt" in static.text(report(WON))


def checked(**facts):
    found = dataclasses.replace(
        report(WON, WON), end_to_end=autotune.EndToEnd("rel<=0.01", **facts)
    )
    return autotuning.sentence(found).partition("Racing took 6.00 s. ")[2]


def test_what_a_bound_came_to_over_all_graphs_is_said():
    met = {"reference": "float64", "reached": 0.008, "lowered": ("g0",)}
    assert checked(**met).startswith(
        "Before the cell ran, what it gives on its own inputs was compared with float64: rel 0.008, "
        "where the bound is rel<=0.01."
    )
    assert checked(**met, missed=0.016, kept_full=("g1",), inputs=3, earlier=True).startswith(
        "rel<=0.01 was 0.016 on 3 other inputs, so g1 stays in float32. Before an earlier run, what "
        "it gives on 3 other inputs was compared with float64: rel 0.008 then, where the bound is "
        "rel<=0.01."
    )
    assert checked(kept_full=("g0", "g1")).startswith(
        "rel<=0.01 was missed on its own inputs, so g0 and g1 stay in float32."
    )
    assert checked(lowered=("g0",), unchecked=("g0",), lack="It writes a.txt.").startswith(
        "rel<=0.01 was checked for each graph alone, and not for all that the cell gives: It "
        "writes a.txt."
    )


def test_the_time_of_that_check_is_a_part_of_its_own():
    found = dataclasses.replace(report(WON), end_to_end=autotune.EndToEnd("rel<=0.01", seconds=2.0))
    assert found.run_seconds == 9.0 - 0.5 - 3.0 - 2.0
    assert ("Checking the bound on all", 2.0) in timing.parts(found)
