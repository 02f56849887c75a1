"""What a piece of code asks of the machine, and its limit there, in sentences."""

from dynamo_ext.analysis.machine_limit import Limit
from dynamo_ext.formatting import count, seconds
from dynamo_ext.records.machine import Work
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


def least(limit: Limit | None, precision: str, calls: int = 0) -> str:
    """The limit in a precision, and what binds it; empty where it is not known."""
    if limit is None:
        return ""
    binds = {
        "calls": f"{count(calls, 'call')} of {seconds(limit.rate)}",
        "memory": amount(limit.rate, "B/s"),
        "products": amount(limit.rate, "FLOP/s"),
    }
    return (
        f"The limit of this machine in {precision} is {seconds(limit.seconds)} "
        f"(bound by {limit.bound}, {binds[limit.bound]})."
    )
