"""How near a report's graphs are to what their machine can do, in sentences."""

from dynamo_ext.analysis import machine_limit
from dynamo_ext.analysis.graph_limit import SURPASSED, call_seconds, calls_of, ran_in
from dynamo_ext.analysis.placement import place_graph
from dynamo_ext.analysis.speed import gain
from dynamo_ext.formatting import percent, seconds
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import limits


def hint(report: Report) -> str:
    """How to have the machine's limit shown; empty where it is, or no graph was timed."""
    lacks = report.machine is None and any(map(gain, report.graphs))
    return limits.hint("a report", "graph") if lacks else ""


def sentence(report: Report, graph: Graph) -> str:
    """What a call asks for, what binds it and how near it is; may be empty."""
    work, machine = graph.work, report.machine
    if work is None or machine is None or not work.size:
        return ""
    precision, calls = ran_in(report, graph), calls_of(report, graph)
    least = machine_limit.limit(work, machine, precision, calls)
    named = machine_limit.computed_in(work, precision)
    words = [limits.asked(work, "A call"), limits.least(least, named, calls)]
    if least and (taken := call_seconds(report, graph)):
        name, share = place_graph(report, graph).label, least.seconds / taken
        why = ", which was measured on a busy machine, or the engine computes less than that"
        reaches = f"{name} takes {seconds(taken)}: {percent(share)} of the limit"
        words.append(f"{reaches}{why if share > SURPASSED else ''}.")
    return " ".join(filter(None, words))
