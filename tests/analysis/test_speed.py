"""What a run's engines gained: from pairs of calls, or from a race."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.speed import FEWEST_PAIRS, gain, runs_until_paid, whole_gain
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

TWICE = ((1.0, 2.0), (1.0, 2.1), (1.0, 1.9))


def graph(pairs=(), calls=1, **facts):
    return Graph("g0", "0/0", "ts", (), "", 0.0, True, calls, 0.0, pairs=pairs, **facts)


def report(*graphs, compile_seconds=10.0):
    return Report("optimize", "ts", "Cell", None, 1.0, compile_seconds, graphs=graphs)


def test_the_median_of_pairs_and_where_they_lie():
    found = gain(graph(TWICE))
    assert (found.ratio, found.low, found.high) == (2.0, 1.9, 2.1)
    assert (found.engine, found.eager, found.pairs) == (1.0, 2.0, 3)


def test_one_pair_on_either_side_may_be_an_accident():
    found = gain(graph((*TWICE, (1.0, 90.0), (90.0, 2.0))))
    assert (found.ratio, found.low, found.high, found.pairs) == (2.0, 1.9, 2.1, 5)


@pytest.mark.parametrize("pairs", [(), TWICE[: FEWEST_PAIRS - 1], (*TWICE[:2], (1.0, 4.1))])
def test_few_or_unlike_pairs_say_nothing(pairs):
    assert gain(graph(pairs)) is None
    assert whole_gain(report(graph(TWICE), graph(pairs))) is None


def test_a_race_has_times_of_its_own():
    row = GraphCandidateResult("ts", "won", 1.0, 3.0, 2.5, 3.5)
    found = gain(graph(contest=GraphRace("ts", (row,))))
    assert (found.ratio, found.low, found.high, found.eager, found.pairs) == (3.0, 2.5, 3.5, 3.0, 0)
    assert (
        gain(graph(contest=GraphRace("eager", (dataclasses.replace(row, outcome="slower"),))))
        is None
    )


def test_graphs_count_by_their_calls():
    same = ((4.0, 4.0),) * 3
    found = whole_gain(report(graph(TWICE, calls=4), graph(same), graph(calls=0)))
    assert (found.engine, found.eager, found.pairs) == (8.0, 12.0, 3)
    assert found.ratio == 1.5
    assert found.low == pytest.approx((4 * 1.9 + 4) / 8)


@pytest.mark.parametrize(("others", "share"), [(1.0, 0.9), (9.0, 0.5), (9.1, None)])
def test_graphs_without_pairs_are_left_out_where_they_have_less_than_half(others, share):
    known = dataclasses.replace(graph(TWICE, calls=4), run_seconds=9.0)
    unknown = dataclasses.replace(graph(), run_seconds=others)
    run = report(known, unknown, graph(calls=0))
    found = whole_gain(run)
    if share is None:
        assert found is None
        return
    assert (found.ratio, found.graphs, found.called, found.share) == (2.0, 1, 2, share)
    assert found.is_part
    assert runs_until_paid(run, found) is None, "what the other graph saves is not known"


def test_compiling_pays_where_a_run_saves():
    run = report(graph(TWICE, calls=4))
    assert runs_until_paid(run, whole_gain(run)) == 3
    slower = report(graph(((2.0, 1.0),) * 3))
    assert runs_until_paid(slower, whole_gain(slower)) is None
