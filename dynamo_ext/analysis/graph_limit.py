"""How near each graph of a report is to what the machine can do."""

from dataclasses import dataclass

from dynamo_ext.analysis import machine_limit
from dynamo_ext.analysis.machine_limit import Limit
from dynamo_ext.analysis.placement import EAGER, place_graph
from dynamo_ext.analysis.speed import gain
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.records.report import Report

FEWEST_CALLS = 10
"""Calls after the first whose mean stands for a call that was not timed in another way."""

SURPASSED = 2.25
"""A share of a limit that hardly any engine reaches: what Winograd's convolutions save."""


@dataclass(frozen=True)
class Reached:
    """One graph's calls of ``seconds`` under the limit of the precision that it ran in.

    ``calls`` are those that it makes one by one, of operations or of engines. ``room`` is how many
    times as fast the same precision could be at most, with one call of an engine.
    """

    graph: Graph
    work: Work
    machine: MachineLimits
    precision: str
    calls: int
    least: Limit
    seconds: float
    room: float

    @property
    def share(self) -> float:
        """The share of its limit."""
        return self.least.seconds / self.seconds

    @property
    def surpasses(self) -> bool:
        """Whether it is so far beyond that the limit was measured too low, or less is computed."""
        return self.share > SURPASSED

    @property
    def has_room(self) -> bool:
        """Whether another backend in the same precision could gain what is worth a word."""
        return self.room >= machine_limit.WORTH_WHILE

    @property
    def gains(self) -> list[tuple[str, float]]:
        """The lower precisions that could gain, by how many times; none far from the limit."""
        if self.share < machine_limit.NEAR or self.surpasses:
            return []
        lower = machine_limit.gains(self.work, self.machine, self.precision, self.calls)
        # Engines round constant weights alone to int8.
        return [pair for pair in lower if pair[0] != "int8" or not self.graph.differentiable]


def reached(report: Report, graph: Graph) -> Reached | None:
    """What a graph reaches; ``None`` where its work, its time or the machine is not known."""
    work, machine, seconds = graph.work, report.machine, call_seconds(report, graph)
    if work is None or machine is None or not seconds:
        return None
    precision, calls = ran_in(report, graph), calls_of(report, graph)
    least, joined = (machine_limit.limit(work, machine, precision, n) for n in (calls, 1))
    if least is None or joined is None:
        return None
    room = seconds / joined.seconds
    return Reached(graph, work, machine, precision, calls, least, seconds, room)


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
    if graph.contest is None and _sizes_vary(graph):
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


def _sizes_vary(graph: Graph) -> bool:
    return any(not size.isdigit() for op in graph.operations for size in op.shape or ())


def largest(report: Report) -> Reached | None:
    """What the graph reaches that has the most time of the run; ``None`` where it is not known."""
    called = [graph for graph in report.graphs if graph.calls]
    most = max(called, key=lambda graph: graph.run_seconds, default=None)
    return reached(report, most) if most is not None else None
