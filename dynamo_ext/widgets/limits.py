"""What a piece of code asks of the machine, and its limit there, in sentences."""

from dynamo_ext.analysis import machine_limit
from dynamo_ext.formatting import count, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.widgets.comparison.number_text import amount, size


def hint(record: str, part: str) -> str:
    """How to have the limit shown, by a kind of record, of each part of it."""
    return (
        f"%dynamo machine measures what this machine can do; {record} then shows how near to it "
        f"each {part} is."
    )


def asked(work: Work, what: str) -> str:
    """What ``what`` (a run, a call) computes and moves."""
    moves = f"moves at least {size(work.size)}"
    if not work.operations:
        return f"{what} {moves} and computes no products."
    return f"{what} computes {amount(work.operations, 'FLOP')} in products and {moves}."


def least(work: Work, machine: MachineLimits, precision: str = FULL, calls: int = 0) -> str:
    """The limit in a precision, and what binds it; empty where it is not known."""
    limit = machine_limit.limit(work, machine, precision, calls)
    if limit is None:
        return ""
    binds = {
        "calls": f"{count(calls, 'call')} of {seconds(machine.call_seconds)}",
        "memory": amount(machine_limit.moved(work, precision) / limit.seconds, "B/s"),
        "products": amount(work.operations / limit.seconds, "FLOP/s"),
    }
    name = machine_limit.computed_in(work, precision)
    return (
        f"The limit of this machine in {name} is {seconds(limit.seconds)} "
        f"(bound by {limit.bound}, {binds[limit.bound]})."
    )
