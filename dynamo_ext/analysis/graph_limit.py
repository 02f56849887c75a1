"""How near each graph of a report is to what the machine can do."""

from dynamo_ext.analysis.placement import EAGER, place_graph
from dynamo_ext.analysis.speed import gain
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

FEWEST_CALLS = 10
"""Calls after the first whose mean stands for a call that was not timed in another way."""

SURPASSED = 2.25
"""A share of a limit that hardly any engine reaches: what Winograd's convolutions save."""


def ran_in(report: Report, graph: Graph) -> str:
    """The precision that a graph ran in: float32 where none of its products ran lower."""
    lowered = place_graph(report, graph).in_engine and graph.lowered != 0
    return graph.precision if lowered else FULL


def calls_of(report: Report, graph: Graph) -> int:
    """Operations of a call that eager runs one by one, and engines that it calls."""
    placement = place_graph(report, graph)
    if all(name.partition(":")[0] == EAGER for name in placement.shares):
        return graph.work.calls if graph.work else 0
    forward = [part for part in graph.partitions if part.role != "backward"]
    return sum(part.operations if part.engine == EAGER else 1 for part in forward) or 1


def call_seconds(report: Report, graph: Graph) -> float | None:
    """Seconds of one call where it ran: by pairs of calls, a race, later calls, or ``--profile``.

    A later call ends on a GPU before its work does. Calls of a graph whose sizes vary may have had
    others than those of its work: only a race is on the sizes that it was captured with.
    """
    sizes = [size for op in graph.operations for size in op.shape or ()]
    if graph.contest is None and not all(map(str.isdigit, sizes)):
        return None
    known = gain(graph)
    if known is not None:
        return known.engine
    if graph.contest is not None:
        # Eager has won: each candidate was timed beside it.
        eager = [each.seconds * each.speedup for each in graph.contest.contestants if each.speedup]
        return eager[0] if eager and graph.contest.winner == EAGER else None
    later = graph.calls - 1
    if later >= FEWEST_CALLS and graph.device == "cpu":
        return max(graph.run_seconds - graph.first_call_seconds, 0.0) / later
    in_engine = place_graph(report, graph).in_engine
    return None if in_engine else graph.operation_seconds or None
