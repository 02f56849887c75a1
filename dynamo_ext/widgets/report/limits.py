"""How near a report's graphs are to what their machine can do: a cell, a sentence, a chart."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.analysis.graph_limit import Reached, calls_of, ran_in, reached
from dynamo_ext.analysis.placement import place_graph
from dynamo_ext.analysis.speed import gain
from dynamo_ext.formatting import percent, seconds
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import limits, roofline
from dynamo_ext.widgets.drawn import SQUARE, WIDTH, Drawn
from dynamo_ext.widgets.roofline import Point

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HEADER = "Of limit"
MEASURE = (
    "%dynamo machine measures what this machine can do; a report then shows how near to it each "
    "graph is."
)
NOTHING = "There is nothing to draw: no graph with products was timed."
_MOST = 12
"""Graphs in a chart: those with the most time."""


def hint(report: Report) -> str:
    """How to have the machine's limit shown; empty where it is, or no graph was timed."""
    return MEASURE if report.machine is None and any(map(gain, report.graphs)) else ""


def cell(report: Report, graph: Graph, *, brief: bool = False) -> str:
    """The share of its limit, and which that is; empty where it is not known."""
    found = reached(report, graph)
    if found is None:
        return ""
    return percent(found.share) if brief else f"{percent(found.share)} {found.least.bound}"


def sentence(report: Report, graph: Graph) -> str:
    """What a call asks for, what binds it, how near it is and what could gain; may be empty."""
    work, machine = graph.work, report.machine
    if work is None or machine is None or not work.size:
        return ""
    precision, calls = ran_in(report, graph), calls_of(report, graph)
    said = [limits.asked(work, "A call"), limits.least(work, machine, precision, calls)]
    found = reached(report, graph)
    if found is not None:
        said += [_reaches(report, found), limits.lower(found.gains)]
    return " ".join(filter(None, said))


def _reaches(report: Report, found: Reached) -> str:
    name = place_graph(report, found.graph).label
    rate = ""
    if found.least.bound != "calls":
        rate = f", {limits.rate(found.work, found.least, found.precision, found.seconds)}"
    said = f"{name} takes {seconds(found.seconds)}{rate}: {percent(found.share)} of the limit"
    why = ", which was measured on a busy machine, or the engine computes less than that"
    return f"{said}{why if found.surpasses else ''}."


class Roofline(Drawn):
    """The graphs with the most time, under the roofs of what their machine can do."""

    def __init__(self, report: Report) -> None:
        self._machine = report.machine
        by_time = sorted(report.graphs, key=lambda graph: -graph.run_seconds)
        known = (each for graph in by_time if (each := reached(report, graph)) is not None)
        self.points = [_point(report, each) for each in known if each.work.operations][:_MOST]
        if not self.points:
            self.lack = NOTHING if report.machine else MEASURE

    @property
    def alt(self) -> str:
        """The chart in words."""
        return f"{roofline.HEAD}: {'; '.join(point.said for point in self.points)}."

    def _inches(self) -> tuple[float, float]:
        return WIDTH, SQUARE

    def _draw(self, axes: Axes, text: str, quiet: str) -> None:
        axes.set_xlabel(roofline.HEAD, color=quiet, fontsize=9, parse_math=False)
        if self._machine is not None:
            roofline.draw(axes, self._machine, self.points, text, quiet)


def _point(report: Report, found: Reached) -> Point:
    name = f"{found.graph.id} {place_graph(report, found.graph).label}"
    return Point(name, found.work, found.precision, found.seconds, found.share)


def plot(report: Report, axes: Axes | None) -> Axes:
    """Draw the roofline, as ``Report.plot`` does."""
    return Roofline(report).plot(axes)
