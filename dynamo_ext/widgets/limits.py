"""What a piece of code asks of the machine, and its limit there, in sentences."""

from dynamo_ext.analysis import machine_limit
from dynamo_ext.formatting import count, listing, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.widgets.comparison.number_text import amount, size
from dynamo_ext.widgets.comparison.summary import ratio


def asked(work: Work, what: str) -> str:
    """What ``what`` (a run, a call) computes and moves."""
    moves = f"moves at least {size(work.size)}"
    if not work.operations:
        return f"{what} {moves} and computes no products."
    return f"{what} computes {amount(work.operations, 'FLOP')} in products and {moves}."


def least(work: Work, machine: MachineLimits, precision: str = FULL, calls: int = 0) -> str:
    """The limit in a precision, and what binds it; empty where it is not known."""
    found = machine_limit.limit(work, machine, precision, calls)
    if found is None:
        return ""
    binds = f"{count(calls, 'call')} of {seconds(machine.call_seconds)}"
    if found.bound != "calls":
        binds = rate(work, found, precision, found.seconds)
    name = machine_limit.computed_in(work, precision)
    return (
        f"The limit of this machine in {name} is {seconds(found.seconds)} "
        f"(bound by {found.bound}, {binds})."
    )


def rate(work: Work, found: machine_limit.Limit, precision: str, taken: float) -> str:
    """What so many seconds come to of what binds it: operations or bytes a second."""
    if found.bound == "memory":
        return amount(machine_limit.moved(work, precision) / taken, "B/s")
    return amount(work.operations / taken, "FLOP/s")


def lower(gains: list[tuple[str, float]]) -> str:
    """What lower precisions could gain; empty where none could."""
    if not gains:
        return ""
    could = listing([f"{name} {ratio(factor)}" for name, factor in gains])
    return f"As near to its own limit, a lower precision would be faster: {could}."
