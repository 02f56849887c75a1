"""Where the time went: compiling, running graphs, and the Python around them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dynamo_ext.analysis.placement import operator_times
from dynamo_ext.formatting import clip, function_name, percent, seconds, sentence
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import blocks
from dynamo_ext.widgets.blocks import Block, Quiet, Table
from dynamo_ext.widgets.html.markup import Markup, element
from dynamo_ext.widgets.report import autotuning, graphs, speed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TITLE = "Timing"
NOTHING = ""
_FRAMES = 60
_BAR = 24
_REASON = 200
_OPERATORS = 12
_ELSEWHERE = (
    "Python and uncaptured code includes any backward passes: autograd runs them operation by "
    "operation, outside of the graphs."
)
_ONE_BY_ONE = (
    "Each operation was timed in eager by itself, with warm caches, on the inputs of its graph's "
    "first call, and counted for every call: together they may take less than the graph does. "
    "Engines fuse operations, so times of single operations inside an engine are not available."
)


def html(report: Report, most: int | None = _FRAMES) -> Markup:
    """Render the parts of the run, then graphs and functions."""
    return element("div", blocks.html(_blocks(report, most)))


def text(report: Report) -> str:
    """Render the same for a terminal."""
    return blocks.text(_blocks(report, _FRAMES))


def _blocks(report: Report, most: int | None) -> Iterator[Block]:
    yield Table("Parts of the run", ["Part", "Time", "Share", ""], _parts(report), {1, 2})
    if loads := speed.loads(report):
        yield f"Before the run, {loads}."
    if any(graph.backward_untimed for graph in report.graphs):
        yield Quiet(_ELSEWHERE)
    yield graphs.overview(report, graphs.TITLE, most)
    yield from autotuning.blocks(report)
    headers = ["Operator", "Calls", "In eager", "Share", "Ran in"]
    title = "Operators, by their time in eager"
    if rows := _operators(report):
        yield Table("Time by operator", headers, rows, {1, 2, 3}, title)
        if report.profile_busy_cores >= BUSY_CORES:
            yield (
                f"Other programs kept {report.profile_busy_cores:.1f} cores busy while operations "
                "were timed, so that these times decide nothing. Time them again when the machine "
                "is idle."
            )
        yield Quiet(_ONE_BY_ONE)
    yield " ".join(
        sentence(f"The operations of {graph.id} could not be timed: {graph.untimed}")
        for graph in report.graphs
        if graph.untimed
    )
    headers = ["Function", "Outcome", "Capture", "Lowering", "Guards", "Why"]
    title = "Functions Dynamo looked at"
    yield Table("Time by function", headers, _frames(report, most), {2, 3, 4}, title)
    yield Quiet(" · ".join(f"{name} {version}" for name, version in report.versions))


def parts(report: Report) -> list[tuple[str, float]]:
    """Seconds of each part of the run."""
    running, backward = report.running_seconds
    others = (
        ("Timing operations", report.profile_seconds),
        ("Racing backends", report.race_seconds),
        ("Checking the bound on all", report.confirm_seconds),
        ("Timing pairs of calls", report.paired_seconds),
        ("Running graphs", running),
        ("Their backward passes", backward),
    )
    return [
        ("Compiling", min(report.compile_seconds, report.seconds)),
        *(part for part in others if part[1] or part[0] == "Running graphs"),
        ("Python and uncaptured code", report.outside_seconds),
    ]


def plot(report: Report, axes: Axes | None) -> Axes:
    """Draw a bar for each part of the run on ``axes``, or in a new figure of pyplot's.

    Raises ``OptionError`` where matplotlib is not installed.
    """
    from dynamo_ext.widgets.drawn import new_axes

    names, spent = zip(*parts(report), strict=True)
    axes = axes or new_axes(6.6, 0.75 + 0.34 * len(names))
    bars = axes.barh(names, spent, height=0.6)
    axes.bar_label(bars, [seconds(each) for each in spent], padding=4)
    axes.invert_yaxis()
    axes.margins(x=0.2)
    axes.set_xlabel(f"Seconds of {report.title} on {report.backend}", parse_math=False)
    return axes


def _parts(report: Report) -> list[list[str]]:
    rows = []
    for name, value in parts(report):
        share = value / report.seconds if report.seconds > 0 else 0.0
        bar = element("span", "█" * round(share * _BAR), class_="dx-meter")
        rows.append([name, seconds(value), percent(share), bar])
    return [*rows, ["Whole run", seconds(report.seconds), "", ""]]


def _operators(report: Report) -> list[list[str]]:
    return [
        [
            each.name,
            f"{each.calls:,}",
            seconds(each.seconds),
            percent(each.share),
            ", ".join(engine or "engine or eager" for engine in each.engines),
        ]
        for each in operator_times(report)[:_OPERATORS]
    ]


def _frames(report: Report, most: int | None) -> list[list[str]]:
    lowered: dict[str, float] = defaultdict(float)
    for graph in report.graphs:
        lowered[graph.frame] += graph.compile_seconds if graph.compiled_now else 0.0
    rows: list[list[str]] = [
        [
            f"{function_name(frame.name)} ({frame.id})" if frame.id else function_name(frame.name),
            frame.outcome,
            *(seconds(each) if each > 0 else "" for each in (capture, lowered[frame.id])),
            f"{frame.guards:,}",
            clip(" ".join(frame.reason.split()), _REASON),
        ]
        for frame in report.frames[:most]
        for capture in [frame.compile_seconds - lowered[frame.id]]
    ]
    return [*rows, *blocks.row_of_left_out(len(report.frames), most, 6)]
