"""How near the candidates are to what the machine can do, in a few sentences."""

from dynamo_ext.analysis import machine_limit
from dynamo_ext.formatting import percent, printable, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.records.machine import Work
from dynamo_ext.widgets.comparison.number_text import amount, size

_HINT = (
    "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
    "each row is."
)


def sentences(record: Comparison) -> str:
    """What a run asks for, what binds it and how near the fastest row is; may be empty."""
    work, machine = record.work, record.machine
    if work is None or not work.size:
        return ""
    if machine is None:
        return f"{_asked(work)} {_HINT}"
    words = [_asked(work)]
    if least := machine_limit.limit(work, machine):
        rate = amount(least.rate, "FLOP/s" if least.bound == "products" else "B/s")
        words.append(
            f"The limit of this machine in {work.precision} is {seconds(least.seconds)} "
            f"(bound by {least.bound}, {rate})."
        )
    nearest = record.best or record.base
    share = share_of_limit(record, nearest) if nearest else None
    if nearest and share:
        precision = machine_limit.computed_in(work, _ran_in(record, nearest))
        reaches = f"{printable(nearest.name)} reaches {percent(share)}"
        words.append(f"{reaches} of the limit in {precision}.")
    return " ".join(words)


def _asked(work: Work) -> str:
    """What a run computes and moves."""
    moves = f"moves at least {size(work.size)}"
    if not work.operations:
        return f"A run {moves} and computes no products."
    return f"A run computes {amount(work.operations, 'FLOP')} in products and {moves}."


def share_of_products(record: Comparison, each: CandidateResult) -> float | None:
    """The share of the products' operations that ran in a row's lower precision, if known."""
    if each.lowered is None or record.work is None or not record.work.operations:
        return None
    return min(each.lowered / record.work.operations, 1.0)


def _ran_in(record: Comparison, each: CandidateResult) -> str:
    """The precision that a row is measured by: float32 where none of its products ran lower."""
    return FULL if share_of_products(record, each) == 0 else each.precision


def share_of_limit(record: Comparison, each: CandidateResult) -> float | None:
    """The share of the machine's limit that a candidate reaches; ``None`` where it is not known.

    What ran in eager did not run in the precision of its name.
    """
    work, machine = record.work, record.machine
    if each.timing is None or each.outcome != "measured" or work is None or machine is None:
        return None
    least = machine_limit.limit(work, machine, _ran_in(record, each))
    return least.seconds / each.timing.median if least else None
