"""How far a piece of code is from what its machine can do, and what could bring it nearer.

The roofline model (Williams, Waterman, Patterson: "Roofline", CACM 2009): nothing is faster than
its products at the machine's rate, nor than its bytes at the rate at which they are read.
"""

from dataclasses import dataclass
from typing import Literal

from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work

_WIDTHS = {"float64": 8, FULL: 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Bytes of a number."""

_LOWER = ("bf16", "fp16", "int8")

WORTH_WHILE = 1.2
"""A gain that is worth a word."""

NEAR = 0.5
"""The share of a limit from which on it is that limit which binds."""

CALLS_MATTER = 0.3
"""The share of eager's time, spent in calling operations, that is worth a word."""


@dataclass(frozen=True)
class Limit:
    """The fewest seconds that a run can take, and what it is that takes them."""

    seconds: float
    bound: Literal["products", "memory", "calls"]


def limit(
    work: Work, machine: MachineLimits, precision: str = FULL, calls: int = 0
) -> Limit | None:
    """The limit in a precision, with so many ``calls`` one by one.

    ``None`` where the machine has no kernels for the precision, or no work is.
    """
    rate = dict(machine.products).get(computed_in(work, precision))
    if not rate or not work.size:
        return None
    size = moved(work, precision)
    computing, reading = work.operations / rate, size / read_rate(machine, size)
    calling = calls * machine.call_seconds
    if calling > max(computing, reading):
        return Limit(calling, "calls")
    if computing >= reading:
        return Limit(computing, "products")
    return Limit(reading, "memory")


def computed_in(work: Work, precision: str) -> str:
    """A precision by its name: what lowers nothing computes in the code's own."""
    return work.precision if precision in {"", FULL} else precision


def moved(work: Work, precision: str) -> float:
    """The bytes that move at least where weights and tensors are of a precision.

    Engines round weights alone to int8: what they compute with is in the code's own precision.
    """
    narrowed = _width(computed_in(work, precision)) / _width(work.precision)
    if precision == "int8":
        return work.size - work.weights * (1 - narrowed)
    return work.size * narrowed


def _width(precision: str) -> int:
    return _WIDTHS.get(precision, _WIDTHS[FULL])


def gains(
    work: Work, machine: MachineLimits, precision: str = FULL, calls: int = 0
) -> list[tuple[str, float]]:
    """The lower precisions whose limit is well below this one's, and how many times, best first.

    What runs at some share of its limit gains as much by one that reaches that share. A precision
    in which the machine multiplies no faster is not among them.
    """
    now = computed_in(work, precision)
    rates, full = dict(machine.products), limit(work, machine, precision, calls)
    found = []
    for name in _LOWER:
        lower = limit(work, machine, name, calls)
        if full is None or lower is None or _width(name) >= _width(now):
            continue
        if rates[name] > rates[now]:
            found.append((name, full.seconds / lower.seconds))
    return sorted((pair for pair in found if pair[1] >= WORTH_WHILE), key=lambda pair: -pair[1])


def share_of_calls(work: Work, machine: MachineLimits, seconds: float) -> float:
    """The share of eager's ``seconds`` that calling its operations one by one takes, at most 1."""
    return min(work.calls * machine.call_seconds / seconds, 1.0)


def read_rate(machine: MachineLimits, size: float) -> float:
    """Bytes a second where so many are read again and again."""
    fits = [rate for known, rate in machine.reads if known >= size]
    return fits[0] if fits else machine.reads[-1][1]
