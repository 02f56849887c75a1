"""What the machine's limit leaves to gain: which gain is possible, and which is not there."""

from collections.abc import Iterable, Iterator

from dynamo_ext.analysis import machine_limit
from dynamo_ext.analysis.advice_step import Advice
from dynamo_ext.analysis.graph_limit import Reached, largest, reached
from dynamo_ext.formatting import count, listing, percent, seconds
from dynamo_ext.records.report import Fallback, Report

NOTHING = "Nothing needs to be done."
LITTLE = f"{NOTHING} The machine's limit leaves little to gain."

_NAMES = {"bf16": "bfloat16", "fp16": "float16"}
_RACE = '%%dynamo -b auto --accuracy "cosine>=0.9999" races lower precisions within that bound.'
_NO_CHANGE = 0.05


def steps(report: Report) -> Iterator[Advice]:
    """What the graph with the most time could gain, where its limit is known and says something."""
    found = largest(report)
    if found is None:
        return
    calling = machine_limit.share_of_calls(found.work, found.machine, found.seconds)
    one_by_one = found.calls == found.work.calls > 1
    evidence = (
        f"a call of it takes {seconds(found.seconds)}, and {seconds(found.least.seconds)} at that "
        "limit"
    )
    if found.surpasses:
        problem = (
            f"{_near(found)}: it was busy when that was measured, or the engine leaves out what "
            "the code computes in vain, such as the same call again"
        )
        again = "Measure again when it is idle: %dynamo machine measure"
        yield Advice("limit-surpassed", problem, again, evidence, 0.1, "Graphs")
        return
    # Of a raced graph, the other backends are known to be slower.
    others = found.graph.contest is None
    if others and found.has_room and one_by_one and calling >= machine_limit.CALLS_MATTER:
        cost = seconds(found.machine.call_seconds)
        yield Advice(
            "bound-by-calls",
            f"{found.graph.id} is bound by calls: {count(found.calls, 'operation')} of {cost} are "
            f"{percent(calling)} of its time",
            "A backend that joins operations saves it: %%dynamo compare.",
            f"a call of it takes {seconds(found.seconds)}",
            0.1,
            "Graphs",
        )
    elif not found.has_room:
        gain = _lower(report, found)
        weight = 0.1 if gain else _NO_CHANGE
        problem = f"{_near(found)}: no other backend could gain much in {_in(found)}"
        yield Advice("at-limit", problem, gain or NOTHING, evidence, weight, "Graphs")
    elif gain := _lower(report, found):
        room = f"{found.room:.2g}× in {_in(found)} at most (%%dynamo compare)"
        step = f"Another backend could gain {room}. {gain}" if others else gain
        yield Advice("near-limit", _near(found), step, evidence, 0.1, "Graphs")


def leaves_little(report: Report, fallbacks: Iterable[Fallback]) -> bool:
    """Whether all graphs that fell back are so near their limit that no engine could gain much."""
    named = {each.subject.partition(":")[0] for each in fallbacks}
    known = [reached(report, graph) for graph in report.graphs if graph.id in named]
    return bool(known) and all(
        found and not found.has_room and not found.surpasses for found in known
    )


def _near(found: Reached) -> str:
    return (
        f"{found.graph.id} reaches {percent(found.share)} of what this machine can do in "
        f"{_in(found)}, bound by {found.least.bound}"
    )


def _in(found: Reached) -> str:
    name = machine_limit.computed_in(found.work, found.precision)
    return _NAMES.get(name, name)


def _lower(report: Report, found: Reached) -> str:
    # With a bound of accuracy they have raced already.
    if not found.gains or report.end_to_end is not None:
        return ""
    weights = " weights" if found.least.bound == "memory" else ""
    could = [
        f"{_NAMES.get(name, name)}{weights if name == 'int8' else ''} {times:.2g}×"
        for name, times in found.gains
    ]
    return f"A lower precision could gain: {listing(could)}. {_RACE}"
