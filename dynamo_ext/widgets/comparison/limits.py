"""How near the candidates are to what the machine can do."""

from dynamo_ext.formatting import percent, printable, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets.comparison.number_text import amount, size

_HINT = (
    "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
    "each row is."
)


def sentence(record: Comparison) -> str:
    """What a run asks for, and how near to its limit the fastest row is; may be empty."""
    work = record.work
    if work is None or not work.size:
        return ""
    asked = f"A run moves at least {size(work.size)} and computes no products"
    if work.operations:
        products = amount(work.operations, "FLOP")
        asked = f"A run computes {products} in products and moves at least {size(work.size)}"
    if record.machine is None:
        return f"{asked}. {_HINT}"
    nearest = record.best or record.base
    least = _limit(record, nearest) if nearest else None
    if nearest is None or least is None or (share := share_of_limit(record, nearest)) is None:
        return f"{asked}."
    precision, (fewest, bound) = work.computed_in(_ran_in(record, nearest)), least
    reaches = f"{printable(nearest.name)} reaches {percent(share)} of the limit of this machine"
    return f"{asked}: {reaches} in {precision} ({seconds(fewest)}, bound by {bound})."


def share_of_products(record: Comparison, candidate: CandidateResult) -> float | None:
    """The share of the products' operations that ran in a row's lower precision, if known."""
    if candidate.lowered is None or record.work is None or not record.work.operations:
        return None
    return min(candidate.lowered / record.work.operations, 1.0)


def _ran_in(record: Comparison, candidate: CandidateResult) -> str:
    """The precision that a row is measured by: float32 where none of its products ran lower."""
    return FULL if share_of_products(record, candidate) == 0 else candidate.precision


def share_of_limit(record: Comparison, candidate: CandidateResult) -> float | None:
    """The share of the machine's limit that a candidate reaches; ``None`` where it is not known.

    What ran in eager did not run in the precision of its name.
    """
    if candidate.timing is None or candidate.outcome != "measured":
        return None
    least = _limit(record, candidate)
    return least[0] / candidate.timing.median if least else None


def _limit(record: Comparison, candidate: CandidateResult) -> tuple[float, str] | None:
    if record.work is None or record.machine is None:
        return None
    return record.machine.limit(record.work, _ran_in(record, candidate))
