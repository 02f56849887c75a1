"""A race by turns: which contender is called next, which drops out when, and how long it goes on.

The contenders are the variants of one graph that is called again and again (``graph_race``), or
assignments of backends to several graphs in the user's own calls (``program_trial``). For instance,
with speedups over eager::

    2 rounds     inductor 1.9   onnxrt 1.4   openvino 2.0   ts 0.7    ts: below half of 2.0
    4 rounds     inductor 1.9   onnxrt 1.4   openvino 2.0             onnxrt: below 0.8 of it
    15 rounds    inductor 1.84 to 1.90       openvino 1.97 to 2.02    openvino has won
"""

import math
import random
from collections.abc import Generator, Mapping

import numpy as np

from dynamo_ext.records.comparison import FEWEST_ROUNDS
from dynamo_ext.timing import clock, statistics

MAX_ROUNDS = 15
"""Times that each contender is timed, at most."""

DROP_BELOW = 0.8
"""A contender is clearly behind whose speed is at best this share of the fastest one's."""

DROP_AFTER = ((4, DROP_BELOW), (2, 0.5), (1, 0.2))
"""Rounds after which a contender drops out whose speed is at best such a share of the best."""

NEAR = 0.95
"""The contender that stays has won where it is at worst as near as that to the fastest one."""

MAX_LEFT = 3
"""How many go on, the fastest, where the seconds do not last for enough rounds of all."""

SHORT_CALL = 0.05
"""Seconds of a call that the threads of the contender before, still awake, may make longer."""

LEAD_IN_SECONDS = 0.02
"""Seconds of short calls that do not count after a change of contender: until the threads of the
one before sleep, and this one's are awake with its weights in the caches."""

SAMPLE_SECONDS = clock.MIN_SAMPLE_SECONDS
"""Seconds of short calls that are one reading."""


def turns(
    samples: Mapping[str, list[float]], seconds: float, stays: str = "", *, repeats: bool = True
) -> Generator[str, float, list[str]]:
    """Whose call comes next, for the seconds of it; in the end those left, the fastest first.

    ``samples`` get the readings of each, of a round one for each. A call of infinite seconds has
    failed, and its contender takes no further part. Rounds end when one contender is left, when
    there are ``MAX_ROUNDS``, or once there are as many as an interval needs: after ``seconds`` of
    readings, or where none is faster than the contender that ``stays``, which never drops out.
    Without ``repeats`` each call is a reading, however short.
    """
    order = random.Random(0)  # noqa: S311 - a schedule
    running, warm, timed = list(samples), set[str](), 0.0
    for number in range(1, MAX_ROUNDS + 1):
        for name in order.sample(running, len(running)):
            lead_in, taken = LEAD_IN_SECONDS * repeats, (yield name)
            while lead_in > 0 and (taken < SHORT_CALL or name not in warm):
                warm.add(name)
                lead_in -= taken
                taken = yield name
            calls = 1
            while taken < SAMPLE_SECONDS * repeats:
                calls, taken = calls + 1, taken + (yield name)
            if taken == math.inf:
                running.remove(name)
                continue
            samples[name].append(taken / calls)
            timed += taken
        running.sort(key=lambda name: float(np.median(samples[name])))
        share = next((share for rounds, share in DROP_AFTER if number >= rounds), 0.0)
        if share and timed / number * FEWEST_ROUNDS > seconds:
            running = [name for name in running if name == stays or name in running[:MAX_LEFT]]
        best = samples[running[0]]
        speeds = {name: statistics.speedup(best, samples[name]) for name in running}
        running = [name for name, each in speeds.items() if name == stays or each.high > share]
        over = timed > seconds or (stays and speeds[stays].low > NEAR)
        if len(running) == 1 or (over and number >= FEWEST_ROUNDS):
            break
    return running
