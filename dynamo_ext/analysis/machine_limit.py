"""The fewest seconds that a machine can take for a piece of code, and how near to it a row is.

The roofline model (Williams, Waterman, Patterson: "Roofline", CACM 2009): nothing is faster than
its products at the machine's rate, nor than its bytes at the rate at which they are read.
"""

from typing import Literal, NamedTuple

from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.records.machine import MachineLimits, Work

_WIDTHS = {"float64": 8, FULL: 4, "bf16": 2, "fp16": 2, "int8": 1}
"""Bytes of a number."""


class Limit(NamedTuple):
    """The fewest seconds that a run can take in a precision, and what it is that takes them."""

    seconds: float
    bound: Literal["products", "memory"]
    precision: str


def limit(work: Work, machine: MachineLimits, precision: str = FULL) -> Limit | None:
    """The limit in a precision; what lowers nothing computes in the code's own.

    ``None`` where the machine has no kernels for the precision, or no work is.
    """
    computed_in = work.precision if precision in {"", FULL} else precision
    rate = dict(machine.products).get(computed_in)
    if not rate or not work.size:
        return None
    narrowed = _WIDTHS.get(computed_in, _WIDTHS[FULL]) / _WIDTHS.get(work.precision, _WIDTHS[FULL])
    # Engines round weights alone to int8: what they compute with is in the code's own precision.
    size = work.size - (work.weights if precision == "int8" else work.size) * (1 - narrowed)
    # At the rate at which so many bytes are read again and again.
    fits = (rate for known, rate in machine.reads if known >= size)
    memory = Limit(size / next(fits, machine.reads[-1][1]), "memory", computed_in)
    return max(Limit(work.operations / rate, "products", computed_in), memory)


def share_of_products(record: Comparison, candidate: CandidateResult) -> float | None:
    """The share of the products' operations that ran in a row's lower precision, if known."""
    if candidate.lowered is None or record.work is None or not record.work.operations:
        return None
    return min(candidate.lowered / record.work.operations, 1.0)


def limit_of(record: Comparison, candidate: CandidateResult) -> Limit | None:
    """The limit of a row that was timed; ``None`` where it is not known.

    What ran in eager did not run in the precision of its name.
    """
    work, machine = record.work, record.machine
    if work is None or machine is None or candidate.timing is None:
        return None
    precision = FULL if share_of_products(record, candidate) == 0 else candidate.precision
    return limit(work, machine, precision) if candidate.outcome == "measured" else None


def share_of_limit(record: Comparison, candidate: CandidateResult) -> float | None:
    """The share of the machine's limit that a row reaches; ``None`` where it is not known."""
    least = limit_of(record, candidate)
    return least.seconds / candidate.timing.median if candidate.timing and least else None
