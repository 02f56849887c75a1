"""How far a piece of code is from what its machine can do, and what could bring it nearer.

The roofline model (Williams, Waterman, Patterson: "Roofline", CACM 2009): nothing is faster than
its products at the machine's rate, nor than its bytes at the rate at which they are read.
"""

from dataclasses import dataclass
from typing import Literal

from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work

_WIDTHS = {FULL: 1.0, "bf16": 0.5, "fp16": 0.5, "int8": 0.25}
"""Bytes of a weight, relative to float32's."""

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
    bound: Literal["products", "memory"]


def limit(work: Work, machine: MachineLimits, precision: str = FULL) -> Limit | None:
    """The limit in a precision; ``None`` where the machine has no kernels for it, or no work is."""
    # A baseline's own precision has no name.
    precision = precision or FULL
    rate = dict(machine.products).get(precision)
    if not rate or not work.size:
        return None
    size = moved(work, precision)
    computing, reading = work.operations / rate, size / read_rate(machine, size)
    if computing >= reading:
        return Limit(computing, "products")
    return Limit(reading, "memory")


def share(
    work: Work | None, machine: MachineLimits | None, precision: str, seconds: float
) -> float | None:
    """The share of its limit that a run of so many seconds reaches; ``None`` if not known."""
    least = limit(work, machine, precision) if work is not None and machine is not None else None
    return least.seconds / seconds if least is not None else None


def moved(work: Work, precision: str) -> float:
    """The bytes that move at least where weights and tensors are of a precision."""
    return work.size * _WIDTHS[precision or FULL]


def gains(work: Work, machine: MachineLimits) -> list[tuple[str, float]]:
    """The lower precisions whose limit is well below float32's, and how many times, best first.

    What runs in float32 at some share of its limit gains as much by one that reaches that share.
    """
    full = limit(work, machine)
    lowered = {name: limit(work, machine, name) for name in _WIDTHS if name != FULL}
    found = [
        (name, full.seconds / lower.seconds)
        for name, lower in lowered.items()
        if full is not None and lower is not None
    ]
    return sorted((pair for pair in found if pair[1] >= WORTH_WHILE), key=lambda pair: -pair[1])


def share_of_calls(work: Work, machine: MachineLimits, seconds: float) -> float:
    """The share of eager's ``seconds`` that calling its operations one by one takes, at most 1."""
    return min(work.calls * machine.call_seconds / seconds, 1.0)


def read_rate(machine: MachineLimits, size: float) -> float:
    """Bytes a second where so many are read again and again."""
    fits = [rate for known, rate in machine.reads if known >= size]
    return fits[0] if fits else machine.reads[-1][1]
