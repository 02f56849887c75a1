"""Speedups of samples whose truth is known."""

from __future__ import annotations

import numpy as np
import pytest

from dynamo_ext.records.comparison import Speedup
from dynamo_ext.timing.statistics import _p_value, half_width, speedup


def noisy(median, rounds, seed, spread=0.05):
    return list(median * np.exp(np.random.default_rng(seed).normal(0, spread, rounds)))


def test_the_ratio_is_the_baselines_time_over_the_candidates():
    found = speedup(noisy(2.0, 200, 1), noisy(1.0, 200, 2))
    assert found.ratio == pytest.approx(2.0, rel=0.02)
    assert found.low < 2.0 < found.high
    assert found.p_value < 1e-6
    assert not found.same


def test_a_drift_that_hits_both_leaves_the_ratio_alone():
    drift = np.linspace(1, 10, 60)
    found = speedup(list(drift * 1.1), list(drift))
    assert found.ratio == pytest.approx(1.1)
    assert found.high - found.low < 1e-9


def test_the_same_is_called_the_same_however_significant():
    found = speedup([1.01] * 100, [1.0] * 100)
    assert found.p_value < 0.05
    assert found.same


def test_a_difference_without_significance_is_none():
    found = speedup(noisy(1.0, 8, 3, 0.5), noisy(0.9, 8, 4, 0.5))
    assert found.p_value > 0.05
    assert found.same


@pytest.mark.parametrize(
    ("low", "high", "p_value", "unclear"),
    [
        (0.97, 1.03, 0.6, False),
        (0.95, 1.2, 0.6, True),
        (0.85, 1.02, 0.6, True),
        (1.02, 1.9, 0.001, False),
    ],
)
def test_an_interval_that_could_hide_anything_is_not_the_same(low, high, p_value, unclear):
    middle = (low * high) ** 0.5
    assert Speedup(middle, low, high, p_value, 20).unclear is unclear


# By scipy 1.17.1, whose `wilcoxon` decides alike which of the two forms is used.
@pytest.mark.parametrize(
    ("rounds", "digits", "p_value"),
    [
        (6, 3, 0.4375),
        (10, 3, 0.375),
        (10, 1, 0.361328125),
        (13, 1, 0.0498046875),
        (25, 3, 0.0050716400146484375),
        (25, 1, 0.005997665886098301),
        (50, 3, 0.5984627102635613),
        (50, 1, 0.5898791908377803),
        (51, 3, 0.14111529152081212),
        (200, 1, 0.045114465543243616),
    ],
)
def test_the_signed_rank_test_is_that_of_scipy(rounds, digits, p_value):
    # One digit makes ratios that are equal or 0.
    ratios = np.round(np.random.default_rng(rounds).normal(0.3, 1, rounds), digits)
    assert _p_value(ratios) == pytest.approx(p_value, rel=1e-9)


def test_too_few_rounds_tell_nothing():
    assert speedup([2.0] * 5, [1.0] * 5).p_value == 1.0


def test_the_interval_is_the_same_for_the_same_seed():
    one, two = noisy(1.0, 50, 5), noisy(1.0, 50, 6)
    assert speedup(one, two, seed=1) == speedup(one, two, seed=1)
    assert speedup(one, two, seed=1) != speedup(one, two, seed=2)


def test_the_interval_covers_the_truth_about_as_often_as_it_says():
    hits = 0
    for seed in range(200):
        found = speedup(noisy(1.0, 40, seed), noisy(1.0, 40, seed + 10_000), seed)
        hits += found.low <= 1.0 <= found.high
    assert 180 <= hits <= 200


@pytest.mark.parametrize(("one", "two"), [([1.0], [1.0, 2.0]), ([], []), ([1.0], [0.0])])
def test_what_cannot_be_compared_is_refused(one, two):
    with pytest.raises(ValueError, match=r"sample|time"):
        speedup(one, two)


def test_more_rounds_settle_what_few_cannot():
    one, two = noisy(1.0, 2_000, 7), noisy(1.0, 2_000, 8)
    assert half_width(one[:3], two[:3]) > 0.01
    assert half_width(one[:20], two[:20]) > 0.005
    assert half_width(one, two) <= 0.005
