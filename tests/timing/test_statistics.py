"""Speedups of samples whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from dynamo_ext.records.comparison import Speedup
from dynamo_ext.timing.statistics import speedup


def noisy(median, rounds, seed, spread=0.05):
    return list(median * np.exp(np.random.default_rng(seed).normal(0, spread, rounds)))


def test_the_ratio_is_the_baselines_time_over_the_candidates():
    found = speedup(noisy(2.0, 200, 1), noisy(1.0, 200, 2))
    assert found.ratio == pytest.approx(2.0, rel=0.02)
    assert found.low < 2.0 < found.high
    assert found.verdict == "faster"


def test_a_drift_that_hits_both_leaves_the_ratio_alone():
    drift = np.linspace(1, 10, 60)
    found = speedup(list(drift * 1.1), list(drift))
    assert found.ratio == pytest.approx(1.1)
    assert found.high - found.low < 1e-9


def test_under_two_percent_is_the_same_however_narrow_the_interval():
    found = speedup([1.01] * 100, [1.0] * 100)
    assert found.low > 1
    assert found.verdict == "same"


@pytest.mark.parametrize(
    ("ratio", "low", "high", "verdict"),
    [
        (1.0, 0.97, 1.03, "same"),
        (1.05, 0.95, 1.2, "unclear"),
        (0.93, 0.85, 1.02, "unclear"),
        (0.59, 0.38, 1.04, "unclear"),
        (0.74, 0.41, 0.99, "slower"),
        (1.4, 1.02, 1.9, "faster"),
        (1.05, 1.0, 1.08, "same"),
    ],
)
def test_the_verdict_follows_from_the_interval(ratio, low, high, verdict):
    assert Speedup(ratio, low, high, 20).verdict == verdict


@pytest.mark.parametrize(("rounds", "beyond"), [(6, 0), (9, 1), (20, 5), (100, 39), (1000, 468)])
def test_the_interval_is_that_of_the_sign_test(rounds, beyond):
    # The ranks of tables of the binomial distribution.
    found = speedup(list(range(1, rounds + 1)), [1.0] * rounds)
    assert (found.low, found.high) == pytest.approx((beyond + 1, rounds - beyond))


def test_too_few_rounds_tell_nothing():
    assert speedup([2.0] * 5, [1.0] * 5).verdict == "unclear"
    assert speedup([2.0] * 6, [1.0] * 6).verdict == "faster"


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    hits = 0
    for seed in range(200):
        found = speedup(noisy(1.0, 40, seed), noisy(1.0, 40, seed + 10_000))
        hits += found.low <= 1.0 <= found.high
    assert 180 <= hits <= 200


@pytest.mark.parametrize(("one", "two"), [([1.0], [1.0, 2.0]), ([], []), ([1.0], [0.0])])
def test_what_cannot_be_compared_is_refused(one, two):
    with pytest.raises(ValueError, match=r"sample|time"):
        speedup(one, two)


def test_more_rounds_settle_what_few_cannot():
    one, two = noisy(1.0, 2_000, 7), noisy(1.0, 2_000, 8)
    assert speedup(one[:3], two[:3]).half_width > 0.01
    assert speedup(one[:20], two[:20]).half_width > 0.005
    assert speedup(one, two).half_width <= 0.005
