"""One model through XLA, traced once and traced at every call; prints a JSON line.

``benchmarks.trace_once`` starts it.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

import dynamo_ext
from benchmarks import one_process
from benchmarks.stored_row import StoredRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form

ONCE, EVERY = "xla", "xla_trivial"


@dataclass(frozen=True)
class Row(StoredRow):
    """One model: the time of tracing at every call over that of tracing once, with its interval.

    Seconds are medians of a call. A model that could not be measured has an ``error``.
    """

    model: str
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    once_seconds: float = 0.0
    every_seconds: float = 0.0
    error: str = ""


def measure(name: str, *, form: Form, budget: float) -> Row:
    """Compare the two on a model.

    Parameters
    ----------
    name
        Of a model of the zoo.
    form
        At which size, and where.
    budget
        Seconds for the timing.
    """
    built = MODELS[name].build(form)
    with torch.no_grad():
        found = dynamo_ext.compare(
            built.module,
            built.args,
            [EVERY, ONCE],
            kwargs=built.kwargs,
            baseline=EVERY,
            budget=budget,
        )
    every, once = found[EVERY], found[ONCE]
    for row in (every, once):
        if row.outcome != "measured" or row.timing is None:
            return Row(name, error=f"{row.name}: {row.outcome}. {row.reason}")
    if once.speedup is None or once.timing is None or every.timing is None:
        return Row(name, error="It was not timed.")
    gain = once.speedup
    seconds = (once.timing.median, every.timing.median)
    return Row(name, gain.ratio, gain.low, gain.high, *seconds)


def main() -> None:
    """Print the row of one model."""
    given = one_process.parser("XLA traced once and every time, on one model.", 15.0).parse_args()
    one_process.tell(measure(given.model, form=Form.of(given), budget=given.budget).to_dict())


if __name__ == "__main__":
    main()
