"""How near the candidates are to what the machine can do, in a few sentences."""

from collections.abc import Iterator

from dynamo_ext.analysis import machine_limit
from dynamo_ext.formatting import count, percent, printable, seconds
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import CandidateResult, Comparison, GraphComparison
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.widgets import limits

MEASURE = (
    "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
    "each row is."
)


def sentences(record: Comparison) -> str:
    """What a run asks for, what binds it, which row is how near, what could gain; may be empty."""
    work, machine = record.work, record.machine
    if work is None or not work.size:
        return ""
    if machine is None:
        return f"{limits.asked(work, 'A run')} {MEASURE}"
    said = [limits.asked(work, "A run"), limits.least(work, machine)]
    base = record.base
    nearest = record.best or base
    if nearest is not None and nearest.timing is not None:
        ran = ran_in(record, nearest)
        said += _nearest(nearest.name, ran, nearest.timing.median, work, machine)
    if base is not None and base.timing is not None and not base.backend:
        said += _calls(base.timing.median, work, machine)
    return " ".join(filter(None, said))


def share_of_products(record: Comparison, each: CandidateResult) -> float | None:
    """The share of the products' operations that ran in a row's lower precision, if known."""
    if each.lowered is None or record.work is None or not record.work.operations:
        return None
    return min(each.lowered / record.work.operations, 1.0)


def ran_in(record: Comparison, each: CandidateResult) -> str:
    """The precision that a row is measured by: float32 where none of its products ran lower."""
    return FULL if share_of_products(record, each) == 0 else each.precision


def share_of_limit(record: Comparison, each: CandidateResult) -> float | None:
    """The share of the machine's limit that a candidate reaches; ``None`` where it is not known.

    What ran in eager did not run in the precision of its name.
    """
    work, machine = record.work, record.machine
    if each.timing is None or each.outcome != "measured" or work is None or machine is None:
        return None
    least = machine_limit.limit(work, machine, ran_in(record, each))
    return least.seconds / each.timing.median if least else None


def of_graph(record: Comparison, graph: GraphComparison) -> str:
    """The same of one graph and its fastest backend; empty where its work was not counted."""
    work, machine = graph.work, record.machine
    if work is None or not work.size or machine is None:
        return ""
    said = [limits.asked(work, "A call"), limits.least(work, machine)]
    best = next((time for time in graph.times if time.backend == graph.fastest), None)
    if best is not None and best.timing is not None:
        row = next((each for each in record.candidates if each.name == best.backend), None)
        precision = row.precision if row else FULL
        said += _nearest(best.backend, precision, best.timing.median, work, machine)
    return " ".join(filter(None, said))


def _nearest(
    name: str, precision: str, taken: float, work: Work, machine: MachineLimits
) -> Iterator[str]:
    least = machine_limit.limit(work, machine, precision)
    if least is None:
        return
    share = least.seconds / taken
    lowered = precision not in ("", FULL)
    which = f"the limit in {precision}, {seconds(least.seconds)}" if lowered else "it"
    yield f"{printable(name)} reaches {percent(share)} of {which}."
    if not lowered and share >= machine_limit.NEAR:
        yield limits.lower(machine_limit.gains(work, machine))


def _calls(taken: float, work: Work, machine: MachineLimits) -> Iterator[str]:
    share = machine_limit.share_of_calls(work, machine, taken)
    if share >= machine_limit.CALLS_MATTER:
        yield (
            f"Calling {count(work.calls, 'operation')} one by one, at "
            f"{seconds(machine.call_seconds)}, takes about {percent(share)} of eager's time: a "
            "backend that joins operations saves it."
        )
