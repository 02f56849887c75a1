"""From paired samples to a speedup, its interval and whether to believe it.

The candidates of a round run within moments of each other, so whatever else the machine does
hits them alike: it is the *ratio within a round* that is measured. Its median is the speedup, a
percentile bootstrap over rounds gives the interval, and Wilcoxon's signed-rank test the p-value
(the t-test of the TorchDynamo posts assumes a normal distribution that timings do not have).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dynamo_ext.comparison import FEWEST_ROUNDS, Speedup

if TYPE_CHECKING:
    from collections.abc import Sequence

RESAMPLES = 2_000
CONFIDENCE = 0.95


def speedup(baseline: Sequence[float], candidate: Sequence[float], seed: int = 0) -> Speedup:
    """How many times faster the candidate is.

    Parameters
    ----------
    baseline, candidate
        Seconds, one value a round, in the same order: value ``i`` of both is from round ``i``.
    seed
        Of the bootstrap.

    Raises
    ------
    ValueError
        Where the two differ in length, are empty, or hold a value that is not positive.
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


def settled(baseline: Sequence[float], candidate: Sequence[float], width: float) -> bool:
    """Whether the interval of the speedup is no wider than ``±width`` (0.01: one per cent).

    It asks for the width alone, never for significance: stopping when a difference looks
    significant would find differences where there are none.
    """
    if len(baseline) < FEWEST_ROUNDS:
        return False
    # The median's own standard error from its order statistics: cheap enough for every round.
    ratios = np.sort(np.log(np.asarray(baseline)) - np.log(np.asarray(candidate)))
    number = len(ratios)
    reach = 0.98 * np.sqrt(number)
    low = ratios[max(0, int(np.floor(number / 2 - reach)))]
    high = ratios[min(number - 1, int(np.ceil(number / 2 + reach)))]
    return bool((high - low) / 2 <= width)


def _interval(ratios: np.ndarray, seed: int) -> tuple[float, float]:
    random = np.random.default_rng(seed)
    picks = random.integers(0, len(ratios), size=(RESAMPLES, len(ratios)))
    medians = np.median(ratios[picks], axis=1)
    tail = (1 - CONFIDENCE) / 2
    low, high = np.quantile(medians, [tail, 1 - tail])
    return float(low), float(high)


def _p_value(ratios: np.ndarray) -> float:
    if len(ratios) < FEWEST_ROUNDS or not ratios.any():
        return 1.0
    from scipy.stats import wilcoxon

    return float(wilcoxon(ratios).pvalue)
