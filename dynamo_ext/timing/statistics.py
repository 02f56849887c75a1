"""From paired samples to a speedup and its interval.

The candidates of a round run within moments of each other, so whatever else the machine does
hits them alike: it is the *ratio within a round* that is measured. Its median is the speedup. The
interval is that of the sign test: its ends are two of the ratios, and it assumes nothing of how
timings are distributed.
"""

import functools
import math
from collections.abc import Sequence

import numpy as np

from dynamo_ext.records.comparison import CONFIDENCE, Speedup


def speedup(baseline: Sequence[float], candidate: Sequence[float]) -> Speedup:
    """How many times faster the candidate is.

    Both are seconds, one value a round: value ``i`` of both is from round ``i``. Below
    ``FEWEST_ROUNDS`` the interval goes from the least ratio to the largest. Raises ``ValueError``
    where the two differ in length, are empty, or hold a value that is not positive.
    """
    if len(baseline) != len(candidate) or not len(baseline):
        message = f"{len(baseline)} and {len(candidate)} samples cannot be paired."
        raise ValueError(message)
    if not (np.asarray([baseline, candidate]) > 0).all():
        message = "A time that is not positive cannot be compared."
        raise ValueError(message)
    ratios = np.sort(np.log(np.asarray(baseline, float)) - np.log(np.asarray(candidate, float)))
    beyond = _rounds_beyond(len(ratios))
    ratio, low, high = map(math.exp, (np.median(ratios), ratios[beyond], ratios[-1 - beyond]))
    return Speedup(ratio, low, high, len(ratios))


@functools.cache
def _rounds_beyond(rounds: int) -> int:
    """How many ratios lie beyond each end of the interval of their median: 20 rounds have 5.

    The median lies below the end where fewer ratios than that are below it, each of which is there
    with a probability of a half.
    """
    tail, beyond = 0.0, -1
    while tail <= (1 - CONFIDENCE) / 2:
        beyond += 1
        tail += math.comb(rounds, beyond) / 2**rounds
    return max(beyond - 1, 0)
