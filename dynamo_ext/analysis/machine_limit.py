"""The fewest seconds that a machine can take for a piece of code.

The roofline model (Williams, Waterman, Patterson: "Roofline", CACM 2009): nothing is faster than
its products at the machine's rate, nor than its bytes at the rate at which they are read.
"""

from typing import Literal, NamedTuple

from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work

_WIDTHS = {"float64": 8, FULL: 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Bytes of a number."""


class Limit(NamedTuple):
    """The fewest seconds that a run can take, and what it is that takes them."""

    seconds: float
    bound: Literal["products", "memory"]


def limit(work: Work, machine: MachineLimits, precision: str = FULL) -> Limit | None:
    """The limit in a precision.

    ``None`` where the machine has no kernels for the precision, or no work is.
    """
    rate = dict(machine.products).get(computed_in(work, precision))
    if not rate or not work.size:
        return None
    size = _moved(work, precision)
    # At the rate at which so many bytes are read again and again.
    fits = (rate for known, rate in machine.reads if known >= size)
    memory = Limit(size / next(fits, machine.reads[-1][1]), "memory")
    return max(Limit(work.operations / rate, "products"), memory)


def computed_in(work: Work, precision: str) -> str:
    """A precision by its name: what lowers nothing computes in the code's own."""
    return work.precision if precision in {"", FULL} else precision


def _moved(work: Work, precision: str) -> float:
    """The bytes that move at least where weights and tensors are of a precision.

    Engines round weights alone to int8: what they compute with is in the code's own precision.
    """
    lowered, own = computed_in(work, precision), work.precision
    narrowed = _WIDTHS.get(lowered, _WIDTHS[FULL]) / _WIDTHS.get(own, _WIDTHS[FULL])
    if precision == "int8":
        return work.size - work.weights * (1 - narrowed)
    return work.size * narrowed
