"""From paired samples to a speedup, its interval and whether to believe it.

The candidates of a round run within moments of each other, so whatever else the machine does
hits them alike: it is the *ratio within a round* that is measured. Its median is the speedup, a
percentile bootstrap over rounds gives the interval, and Wilcoxon's signed-rank test the p-value
(the t-test of the TorchDynamo posts assumes a normal distribution that timings do not have).
"""

import math
from collections.abc import Sequence

import numpy as np

from dynamo_ext.records.comparison import FEWEST_ROUNDS, Speedup

RESAMPLES = 2_000
CONFIDENCE = 0.95

EXACT, EXACT_TIED = 50, 13
"""Rounds up to which the test is exact, without and with ratios that are equal or 0."""


def speedup(baseline: Sequence[float], candidate: Sequence[float], seed: int = 0) -> Speedup:
    """How many times faster the candidate is.

    Both are seconds, one value a round: value ``i`` of both is from round ``i``. ``seed`` is that
    of the bootstrap. Raises ``ValueError`` where the two differ in length, are empty, or hold a
    value that is not positive.
    """
    if len(baseline) != len(candidate) or not len(baseline):
        message = f"{len(baseline)} and {len(candidate)} samples cannot be paired."
        raise ValueError(message)
    times = np.asarray([baseline, candidate], dtype=float)
    if not (times > 0).all():
        message = "A time that is not positive cannot be compared."
        raise ValueError(message)
    ratios = np.log(times[0]) - np.log(times[1])
    low, high = _interval(ratios, seed)
    centre = float(np.median(ratios))
    return Speedup(
        ratio=float(np.exp(centre)),
        low=float(np.exp(low)),
        high=float(np.exp(high)),
        p_value=_p_value(ratios),
        rounds=len(ratios),
        confidence=CONFIDENCE,
    )


def half_width(baseline: Sequence[float], candidate: Sequence[float]) -> float:
    """Half the width of the speedup's interval (0.01: ±1 %); infinite for too few rounds.

    A race asks for the width alone, never for significance: stopping when a difference looks
    significant would find differences where there are none.
    """
    if len(baseline) < FEWEST_ROUNDS:
        return math.inf
    # The median's own standard error from its order statistics: cheap enough for every round.
    ratios = np.sort(np.log(np.asarray(baseline)) - np.log(np.asarray(candidate)))
    number = len(ratios)
    reach = 0.98 * np.sqrt(number)
    low = ratios[max(0, int(np.floor(number / 2 - reach)))]
    high = ratios[min(number - 1, int(np.ceil(number / 2 + reach)))]
    return float(high - low) / 2


def _interval(ratios: np.ndarray, seed: int) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    picks = random.integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    medians = np.median(ratios[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)


def _p_value(ratios: np.ndarray) -> float:
    """Wilcoxon's signed-rank test, two-sided, of whether the ratios lie around 0.

    Exact for few rounds, else by the normal distribution. Ratios of 0 are left out, and equal ones
    have the mean of their ranks.
    """
    if len(ratios) < FEWEST_ROUNDS or not ratios.any():
        return 1.0
    used = ratios[ratios != 0]
    _, place, ties = np.unique(np.abs(used), return_inverse=True, return_counts=True)
    ranks = (np.cumsum(ties) - (ties - 1) / 2)[place]
    positive, number = float(ranks[used > 0].sum()), len(used)
    tied = number < len(ratios) or ties.max() > 1
    if len(ratios) <= (EXACT_TIED if tied else EXACT):
        # How many choices of signs give each sum of ranks; doubled, for a mean may be a half.
        ways = np.zeros(number * (number + 1) + 1)
        ways[0] = 1
        for rank in (2 * ranks).astype(int):
            ways[rank:] = ways[rank:] + ways[:-rank]
        at = round(2 * positive)
        tail = min(ways[: at + 1].sum(), ways[at:].sum())
        return min(2 * float(tail) / 2.0**number, 1.0)
    variance = number * (number + 1) * (2 * number + 1) / 24 - float((ties**3 - ties).sum()) / 48
    return math.erfc(abs(positive - number * (number + 1) / 4) / math.sqrt(2 * variance))
