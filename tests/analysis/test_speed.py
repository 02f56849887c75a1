"""What a run's engines gained: from pairs of calls, or from a race."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis import speed
from dynamo_ext.analysis.speed import FEWEST_PAIRS, OFF, cell_gain, gain, runs_until_paid, spent
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.capture import LoopTurns
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

TWICE = ((1.0, 2.0), (1.0, 2.1), (1.0, 1.9))


def graph(pairs=(), calls=1, **facts):
    return Graph("g0", "0/0", "ts", (), "", 0.0, True, calls, 0.0, pairs=pairs, **facts)


def report(*graphs, seconds=11.0, compile_seconds=10.0, **facts):
    return Report("optimize", "ts", "", None, seconds, compile_seconds, graphs=graphs, **facts)


def test_the_median_of_pairs_and_where_they_lie():
    found = gain(graph(TWICE))
    assert (found.ratio, found.low, found.high) == (2.0, 1.9, 2.1)
    assert (found.engine, found.eager, found.pairs) == (1.0, 2.0, 3)


def test_one_pair_on_either_side_may_be_an_accident():
    found = gain(graph((*TWICE, (1.0, 90.0), (90.0, 2.0))))
    assert (found.ratio, found.low, found.high, found.pairs) == (2.0, 1.9, 2.1, 5)


@pytest.mark.parametrize("pairs", [(), TWICE[: FEWEST_PAIRS - 1]])
def test_few_pairs_say_nothing(pairs):
    assert gain(graph(pairs)) is None
    unknown = dataclasses.replace(graph(pairs), id="g1", run_seconds=9.0)
    assert isinstance(cell_gain(report(graph(TWICE), unknown, seconds=20.0)), str)


def test_pairs_with_backward_passes_stand_for_runs_with_backward_passes():
    trained = dataclasses.replace(graph(TWICE, is_trained=True), run_seconds=0.4)
    assert gain(trained) is None
    found = cell_gain(report(dataclasses.replace(trained, backward_seconds=0.6), seconds=11.2))
    assert (found.seconds, found.plain) == pytest.approx((1.2, 2.2))


def test_pairs_far_apart_have_a_wide_interval_and_no_verdict():
    found = cell_gain(report(graph(((1.0, 2.0), (1.0, 0.5), (1.0, 4.1))), seconds=10.0))
    assert (found.low, found.high) == pytest.approx((0.5 / (1 + OFF), 4.1 * (1 + OFF)))
    assert found.verdict == "unclear"


def test_a_race_has_times_of_its_own():
    row = GraphCandidateResult("ts", "won", 1.0, 3.0, 2.5, 3.5)
    found = gain(graph(contest=GraphRace("ts", (row,))))
    assert (found.ratio, found.low, found.high, found.eager, found.pairs) == (3.0, 2.5, 3.5, 3.0, 0)
    assert (
        gain(graph(contest=GraphRace("eager", (dataclasses.replace(row, outcome="slower"),))))
        is None
    )


def test_a_race_on_a_busy_machine_says_nothing():
    row = GraphCandidateResult("ts", "won", 1.0, 3.0, 2.5, 3.5)
    busy = graph(contest=GraphRace("ts", (row,), note="Others were busy.", conclusive=False))
    assert gain(busy) is None
    assert cell_gain(report(dataclasses.replace(busy, run_seconds=1.0))) == "others were busy"


def test_graphs_count_by_their_calls_and_the_code_around_them_as_it_is():
    made = report(
        dataclasses.replace(graph(TWICE, calls=4), run_seconds=5.0),
        dataclasses.replace(graph(((4.0, 4.0),) * 3), run_seconds=5.0),
        seconds=22.0,
    )
    found = cell_gain(made)
    # Of twelve seconds without compiling, two are Python's.
    assert (found.seconds, found.plain) == (2 + 4 + 4, 2 + 8 + 4)
    ends = (2 + 4 * 1.9 + 4) / 10, (2 + 4 * 2.1 + 4) / 10
    assert (found.low, found.high) == pytest.approx((ends[0] / (1 + OFF), ends[1] * (1 + OFF)))
    assert (found.verdict, found.source) == ("faster", "3 pairs of calls of its graphs")


@pytest.mark.parametrize(("others", "is_known"), [(1.0, True), (4.0, True), (4.1, False)])
def test_graphs_without_pairs_count_as_they_are_up_to_half(others, is_known):
    known = dataclasses.replace(graph(TWICE, calls=4), run_seconds=4.0)
    unknown = dataclasses.replace(graph(), id="g1", run_seconds=others)
    found = cell_gain(report(known, unknown, seconds=14.0 + others))
    assert isinstance(found, str) is not is_known
    if is_known:
        assert found.ratio == pytest.approx((8 + others) / (4 + others))


def test_what_eager_won_is_as_fast_as_eager():
    lost = graph(contest=GraphRace("eager", ()))
    lost = dataclasses.replace(lost, id="g1", run_seconds=8.0)
    won = dataclasses.replace(graph(TWICE), run_seconds=1.0)
    found = cell_gain(report(won, lost, seconds=19.0))
    assert (found.seconds, found.plain) == (9.0, 10.0)


PLAIN = (40.0, 13.0, 6.0, 5.0, 7.0)
"""First runs of a text are slower than later ones: 390 ms, then 130 ms, then 24 ms were seen."""


def test_plain_runs_that_agree_come_first():
    made = report(graph(TWICE), seconds=3.0, compile_seconds=0.0, plain_runs=(*PLAIN[:3], 5.0, 6.0))
    found = cell_gain(made)
    assert (found.seconds, found.plain, found.ratio) == (3.0, 6.0, 2.0)
    assert (found.low, found.high) == pytest.approx((5 / 3 / (1 + OFF), 6 / 3 * (1 + OFF)))
    assert found.source == "3 runs of the same text as a plain cell"
    compiled = dataclasses.replace(made, seconds=2.0, compile_seconds=1.0)
    assert "pairs" in cell_gain(compiled).source
    busy = dataclasses.replace(compiled, busy_cores=BUSY_CORES)
    assert cell_gain(busy) == "other programs kept 0.5 cores busy in this run"
    unpaired = dataclasses.replace(compiled, graphs=(graph(),))
    assert "this run compiled" in cell_gain(unpaired)


@pytest.mark.parametrize("plain", [(9.0,), (40.0, 9.0), PLAIN, (0.01, 0.01)])
def test_plain_runs_that_differ_or_are_short_say_nothing(plain):
    made = report(graph(), seconds=1.0, compile_seconds=0.0, plain_runs=plain)
    assert isinstance(cell_gain(made), str)


def test_a_later_run_counts_as_it_was():
    """A cache that grows: its later calls take longer than those that were paired."""
    later = dataclasses.replace(graph(TWICE, calls=4), run_seconds=10.0)
    found = cell_gain(report(later, seconds=11.0, compile_seconds=0.0))
    assert (found.seconds, found.plain) == (11.0, 1 + 4 * 2.0)


def test_what_runs_in_eager_gains_nothing():
    lost = graph(contest=GraphRace("eager", ()))
    made = report(lost, seconds=2.0, compile_seconds=0.0, plain_runs=(3.0, 3.0))
    assert cell_gain(made) == "auto left its graphs to eager"


def test_compiling_pays_where_a_run_saves():
    run = report(graph(TWICE, calls=4), seconds=10.0, spent_before=2.0)
    assert spent(run) == 12.0
    assert runs_until_paid(run, cell_gain(run)) == 3
    slower = report(graph(((2.0, 1.0),) * 3), seconds=10.0)
    assert cell_gain(slower).verdict == "slower"
    assert runs_until_paid(slower, cell_gain(slower)) is None


def test_a_run_whose_graphs_take_next_to_nothing_is_as_plain():
    made = report(dataclasses.replace(graph(TWICE), run_seconds=0.1), compile_seconds=0.0)
    assert speed.is_plain(made)
    assert "2% of its time" in cell_gain(made)
    assert not speed.is_plain(dataclasses.replace(made, compile_seconds=1.0))


PLAIN_LOOP = LoopTurns(2, 0, 0.0067, 0.0006, plain=0.9)


@pytest.mark.parametrize(
    ("loop_seconds", "graphs", "most"),
    [(0.9, (graph(),), True), (0.2, (graph(),), False), (0.2, (), True)],
)
def test_loops_left_plain(loop_seconds, graphs, most):
    loop = dataclasses.replace(PLAIN_LOOP, plain=loop_seconds)
    made = report(*graphs, seconds=1.0, compile_seconds=0.0, turns=(loop,))
    assert isinstance(cell_gain(made), str)
    assert speed.loops_left_plain(made) == (loop,)
    assert speed.plain_loops(made) == ((loop,) if most else ())
    captured = dataclasses.replace(loop, turns=3)
    assert not speed.loops_left_plain(dataclasses.replace(made, turns=(captured,)))
