"""Who wins, and in which words the others lost."""

from __future__ import annotations

import pytest

from dynamo_ext.auto.ranking import place
from dynamo_ext.measure.multi_backend import winner_of
from dynamo_ext.records.comparison import Speedup


def speedup(low, ratio, high, rounds=20):
    return Speedup(ratio, low, high, rounds)


FAST, FASTER = speedup(1.4, 1.5, 1.6), speedup(1.9, 2.0, 2.1)
NOISE, SLOW = speedup(0.9, 1.1, 1.3), speedup(0.4, 0.5, 0.6)

LITTLE, FEW = speedup(1.005, 1.015, 1.026), speedup(1.04, 1.09, 1.26, rounds=5)
PERHAPS = "Perhaps faster: by too little, or in too few rounds, to be sure."


def test_the_fastest_beyond_noise_wins():
    assert winner_of({"a": FAST, "b": FASTER, "c": NOISE}) == "b"


@pytest.mark.parametrize("speedups", [{}, {"a": NOISE}, {"a": SLOW, "b": NOISE}])
def test_eager_wins_where_nobody_is_faster(speedups):
    assert winner_of(speedups) == "eager"


@pytest.mark.parametrize(
    ("name", "found", "outcome", "reason"),
    [
        ("a", FASTER, "won", ""),
        ("b", FAST, "slower", "a is faster."),
        ("b", NOISE, "same", "No faster than eager within noise."),
        ("b", LITTLE, "same", PERHAPS),
        ("b", FEW, "same", PERHAPS),
        ("b", SLOW, "slower", "Slower than eager."),
        ("b", None, "slower", "Not timed."),
        ("eager", None, "slower", "a is faster."),
    ],
)
def test_who_finished_is_told_why_it_lost(name, found, outcome, reason):
    assert place(name, "a", found) == (outcome, reason)
