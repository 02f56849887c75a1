"""Who drops out of a race, and how long it goes on, on a clock that a test sets."""

from __future__ import annotations

import itertools

import pytest

from dynamo_ext.auto import elimination
from dynamo_ext.measure.multi_backend import GraphCandidate
from dynamo_ext.measure.progress import Board, reporting_to
from dynamo_ext.timing import clock


@pytest.fixture
def candidates(monkeypatch):
    """Candidates by the seconds that a call of each takes; time passes in calls alone."""
    now = [0.0]

    def timed(call, calls, wait):
        del wait
        call()
        now[0] += 0.0
        taken = clock_of[call]
        return taken if isinstance(taken, float) else next(taken)

    clock_of = {}
    monkeypatch.setattr(clock, "seconds_per_call", timed)
    monkeypatch.setattr(elimination.time, "perf_counter", lambda: now[0])
    monkeypatch.setattr("dynamo_ext.timing.race.time.perf_counter", lambda: now[0])

    def make(**seconds):
        made = []
        for name, taken in seconds.items():

            def call(taken=taken):
                now[0] += taken if isinstance(taken, float) else 1.0

            clock_of[call] = taken
            made.append(GraphCandidate(name, call))
        return made

    return make


def rounds(each):
    return len(each.samples)


def test_who_is_at_half_the_speed_is_out_after_one_round(candidates):
    made = candidates(eager=1.0, fast=0.5, slow=3.0)
    elimination.run(made, 100.0, Board("", ()))
    assert (made[2].outcome, rounds(made[2])) == ("slower", 1)
    assert made[2].reason == "Clearly slower after 1 round."
    assert not made[1].outcome


def test_who_is_clearly_behind_is_out_after_the_heats(candidates):
    made = candidates(eager=1.0, fast=0.5, behind=0.8)
    elimination.run(made, 1000.0, Board("", ()))
    assert (made[2].outcome, rounds(made[2])) == ("slower", 5)
    assert made[2].reason == "Clearly slower after 5 rounds."


def test_of_a_slow_graph_the_fastest_go_on_for_enough_rounds(candidates):
    made = candidates(eager=1.0, a=0.80, b=0.81, c=0.82, d=0.83, e=0.84)
    elimination.run(made, 5.0, Board("", ()))
    left = [each.name for each in made if not each.outcome]
    assert left == ["eager", "a", "b", "c"]
    assert rounds(made[1]) >= 5 + elimination.MIN_FINAL_ROUNDS
    assert {rounds(each) for each in made[:4]} == {rounds(made[0])}


def test_where_there_is_time_all_go_on(candidates):
    made = candidates(eager=0.010, a=0.0080, b=0.0081, c=0.0082, d=0.0083)
    elimination.run(made, 5.0, Board("", ()))
    assert not [each.name for each in made if each.outcome]


def test_a_final_that_leaves_it_open_goes_on_until_it_is_told(candidates):
    # Half again as fast in most rounds, and half as slow in the others.
    unsure = itertools.cycle([0.8, 1.9, 0.8, 1.9, 0.8])
    made = candidates(eager=1.0, unsure=unsure)
    elimination.run(made, 1.0, Board("", ()))
    assert rounds(made[0]) > 5 + elimination.MIN_FINAL_ROUNDS * 2
    once = itertools.chain([0.8] * 12 + [1.9] * 5, itertools.repeat(0.8))
    made = candidates(eager=1.0, unsure=once)
    elimination.run(made, 1.0, Board("", ()))
    assert rounds(made[0]) <= 5 + elimination.MIN_FINAL_ROUNDS * 3


def test_a_final_that_eager_wins_by_right_is_the_last(candidates):
    made = candidates(eager=1.0, behind=itertools.cycle([0.9, 1.2, 1.1, 1.05]))
    elimination.run(made, 1.0, Board("", ()))
    assert rounds(made[0]) <= 5 + elimination.MIN_FINAL_ROUNDS + 2


def test_eager_alone_has_nothing_to_run(candidates):
    made = candidates(eager=1.0)
    elimination.run(made, 5.0, Board("", ()))
    assert rounds(made[0]) == 0


def test_one_that_fails_takes_no_further_part(candidates):
    made = candidates(eager=1.0, good=0.5, bad=0.4)

    def fails():
        raise RuntimeError

    made[2].call = fails
    elimination.run(made, 20.0, Board("", ()))
    assert "bad" not in elimination.speedups_of(made)
    assert not made[1].outcome


def test_the_race_is_told_with_who_is_out_and_why(candidates):
    told = []
    made = candidates(eager=1.0, fast=0.5, slow=3.0)
    board = Board("graph 1", [each.name for each in made])
    with reporting_to(told.append):
        elimination.run(made, 5.0, board)
    assert {each.subject for each in told} == {"graph 1"}
    assert told[0].left is None
    out = [each for each in told[-1].standings if each.state == "out"]
    assert [(each.name, each.reason) for each in out] == [("slow", "Clearly slower after 1 round.")]
    assert told[-1].standings[1].median == 0.5
