"""How near the candidates are to what the machine can do, in a few sentences."""

from __future__ import annotations

from collections.abc import Iterator

from dynamo_ext.analysis import machine_limit
from dynamo_ext.formatting import count, listing, percent, printable, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.widgets.comparison.number_text import amount, size
from dynamo_ext.widgets.comparison.summary import ratio

MEASURE = (
    "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
    "each row is."
)


def sentences(record: Comparison) -> str:
    """What a run asks for, what binds it, which row is how near, what could gain; may be empty."""
    work, machine = record.work, record.machine
    if work is None or not work.size:
        return ""
    asks = f"A run moves at least {size(work.size)} and computes no products"
    if work.operations:
        computes = f"computes {amount(work.operations, 'FLOP')} in products"
        asks = f"A run {computes} and moves at least {size(work.size)}"
    least = machine_limit.limit(work, machine) if machine else None
    if machine is None or least is None:
        return f"{asks}." if machine else f"{asks}. {MEASURE}"
    rate = dict(machine.products)[FULL] if least.bound == "products" else work.size / least.seconds
    binds = f"by {least.bound}, {amount(rate, 'FLOP/s' if least.bound == 'products' else 'B/s')}"
    lead = f"The limit of this machine in float32 is {seconds(least.seconds)} (bound {binds})."
    said = [f"{asks}.", lead]
    base = next((c for c in record.candidates if c.name == record.baseline), None)
    nearest = record.best or base
    if nearest is not None and nearest.timing is not None:
        said += _nearest(nearest, nearest.timing.median, work, machine)
    if base is not None and base.timing is not None and not base.backend:
        said += _calls(base.timing.median, work, machine)
    return " ".join(said)


def _nearest(
    row: CandidateResult, taken: float, work: Work, machine: MachineLimits
) -> Iterator[str]:
    least = machine_limit.limit(work, machine, row.precision)
    if least is None:
        return
    share = least.seconds / taken
    lowered = row.precision not in ("", FULL)
    which = f"the limit in {row.precision}, {seconds(least.seconds)}" if lowered else "it"
    yield f"{printable(row.name)} reaches {percent(share)} of {which}."
    gains = [] if lowered or share < machine_limit.NEAR else machine_limit.gains(work, machine)
    if gains:
        could = listing([f"{name} {ratio(factor)}" for name, factor in gains])
        yield f"As near to its own limit, a lower precision would be faster: {could}."


def _calls(taken: float, work: Work, machine: MachineLimits) -> Iterator[str]:
    share = machine_limit.share_of_calls(work, machine, taken)
    if share >= machine_limit.CALLS_MATTER:
        yield (
            f"Calling {count(work.calls, 'operation')} one by one, at "
            f"{seconds(machine.call_seconds)}, takes about {percent(share)} of eager's time: a "
            "backend that joins operations saves it."
        )
