"""Whose turn it is in a race, who drops out, and how long it goes on."""

from __future__ import annotations

import itertools
import math

import pytest

from dynamo_ext.auto import turns
from dynamo_ext.records.comparison import FEWEST_ROUNDS


@pytest.fixture(autouse=True)
def short_trials():
    """Readings take as long as they do, other than in the tests beside."""


def held(limit=1000.0, stays="eager", *, repeats=True, **seconds):
    """Those left of a race, and the readings of each, whose calls take so many seconds in turn."""
    samples = {name: [] for name in seconds}
    calls = {
        n: iter(s) if not isinstance(s, float) else itertools.repeat(s) for n, s in seconds.items()
    }
    race = turns.turns(samples, limit, stays, repeats=repeats)
    name = next(race)
    while True:
        try:
            name = race.send(next(calls[name]))
        except StopIteration as ended:
            return ended.value, samples


@pytest.mark.parametrize(("slow", "rounds"), [(6.0, 1), (1.5, 2), (0.8, 4)])
def test_the_slower_it_is_the_sooner_it_is_out(slow, rounds):
    left, samples = held(eager=1.0, fast=0.5, slow=slow)
    assert left == ["fast", "eager"]
    assert len(samples["slow"]) == rounds


def test_one_slow_reading_puts_nobody_out():
    left, _ = held(eager=1.0, fast=itertools.chain([0.5, 2.0], itertools.repeat(0.5)))
    assert left[0] == "fast"


def test_of_a_slow_graph_the_fastest_go_on_for_enough_rounds():
    left, samples = held(5.0, eager=1.0, a=0.80, b=0.81, c=0.82, d=0.83, e=0.84)
    assert left == ["a", "b", "c", "eager"]
    assert {len(samples[name]) for name in left} == {FEWEST_ROUNDS}


def test_where_no_one_is_faster_it_is_over_soon():
    left, samples = held(eager=0.1, a=0.098, b=0.11)
    assert {len(each) for each in samples.values()} == {FEWEST_ROUNDS}
    assert left[0] == "a"


def test_where_there_is_time_all_go_on():
    left, samples = held(50.0, eager=0.1, a=0.080, b=0.081, c=0.082, d=0.083)
    assert len(left) == 5
    assert {len(each) for each in samples.values()} == {turns.MAX_ROUNDS}


def test_short_calls_are_read_together_after_some_that_do_not_count():
    taken = itertools.chain([0.004] * 5, itertools.repeat(0.002))
    _, samples = held(eager=1.0, short=taken)
    assert samples["short"] == pytest.approx([0.002] * turns.MAX_ROUNDS)


def test_a_call_after_which_something_is_put_back_is_a_reading():
    _, samples = held(repeats=False, eager=iter([0.002] * turns.MAX_ROUNDS), other=0.0018)
    assert samples["eager"] == [0.002] * turns.MAX_ROUNDS


def test_the_first_call_of_each_does_not_count():
    _, samples = held(eager=itertools.chain([9.0], itertools.repeat(1.0)), other=1.0)
    assert set(samples["eager"]) == {1.0}


@pytest.mark.parametrize("failing", [[math.inf], [0.4, 0.4, 0.4, math.inf], [0.001, math.inf]])
def test_one_that_fails_takes_no_further_part(failing):
    left, samples = held(eager=1.0, good=0.5, bad=[*failing, math.inf])
    assert left == ["good", "eager"]
    assert len(samples["good"]) == turns.MAX_ROUNDS
    assert math.inf not in samples["bad"]


def test_only_who_stays_may_be_far_behind():
    assert held(stays="", eager=1.0, fast=0.1)[0] == ["fast"]
