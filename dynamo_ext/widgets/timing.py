"""Where the time went: compiling, running graphs, and the Python around them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.operator_times import operator_times
from dynamo_ext.placement import coverage, place_graph
from dynamo_ext.widgets import contests, markup, plain
from dynamo_ext.widgets.markup import Html, element
from dynamo_ext.wording import clip, count, function_name, percent, seconds, sentence

if TYPE_CHECKING:
    from dynamo_ext.records import Report

TITLE = "Timing"
NOTHING = ""
_FRAMES = 60
_BAR = 24
_REASON = 200
_OPERATORS = 12
_EITHER = "engine or eager"
_ONE_BY_ONE = (
    "Each operation was timed in eager by itself, with warm caches, on the inputs of its graph's "
    "first call, and counted for every call: together they may take less than the graph does. An "
    "engine fuses operations: what it takes for one is not to be had."
)


def html(report: Report) -> Html:
    """Render the parts of the run, then graphs and functions."""
    headers, rows = _parts(report)
    drawn = [[*cells, element("span", bar, class_="dx-meter")] for *cells, bar in rows]
    parts: list[object] = [markup.table("Parts of the run", headers, drawn, numeric={1, 2})]
    if words := captured(report):
        parts.append(element("p", words))
    headers, rows = _graphs(report)
    if rows:
        parts += [
            element("h4", "Graphs"),
            markup.table("Time by graph", headers, rows, numeric={2, 3, 4, 5}),
        ]
    parts.append(contests.html(report))
    headers, rows = _operators(report)
    if rows:
        parts += [
            element("h4", "Operators, by their time in eager"),
            markup.table("Time by operator", headers, rows, numeric={1, 2, 3}),
            element("p", _ONE_BY_ONE, class_="dx-quiet"),
        ]
    if untimed := _untimed(report):
        parts.append(element("p", untimed))
    headers, rows = _frames(report)
    if rows:
        parts += [element("h4", "Functions Dynamo looked at")]
        parts += [markup.table("Time by function", headers, rows, numeric={2, 3, 4})]
    if report.versions:
        parts.append(element("p", _versions(report), class_="dx-quiet"))
    return element("div", *parts)


def text(report: Report) -> str:
    """Render the same for a terminal."""
    headers, rows = _parts(report)
    parts = [plain.table(headers, rows, numeric={1, 2})]
    parts += filter(None, [plain.paragraph(captured(report))])
    headers, rows = _graphs(report)
    if rows:
        parts.append(plain.table(headers, rows, numeric={2, 3, 4, 5}))
    parts += filter(None, [contests.text(report)])
    headers, rows = _operators(report)
    if rows:
        parts += [
            plain.table(headers, rows, numeric={1, 2, 3}),
            plain.paragraph(_ONE_BY_ONE),
        ]
    parts += filter(None, [plain.paragraph(_untimed(report))])
    headers, rows = _frames(report)
    if rows:
        parts.append(plain.table(headers, rows, numeric={2, 3, 4}))
    if report.versions:
        parts.append(plain.paragraph(_versions(report)))
    return "\n\n".join(parts)


def captured(report: Report) -> str:
    """How much of the run is in graphs: operations, and the time that was not compiling."""
    covered = coverage(report)
    rest = report.run_seconds
    if not covered.graphs or rest <= 0:
        return ""
    taken = sum(graph.run_seconds + graph.backward_seconds for graph in report.graphs)
    share = min(taken / rest, 1.0)
    graphs = count(covered.graphs, "graph")
    operations = count(covered.total, "operation")
    return (
        f"{operations} in {graphs}, {covered.in_engine:,} of them in an engine. "
        f"Graphs took {percent(share)} of the time that was {_rest_is(report)}."
        f"{_ELSEWHERE if any(graph.backward_untimed for graph in report.graphs) else ''}"
    )


def _rest_is(report: Report) -> str:
    first, *others = (name.lower() for name, _ in _apart(report))
    return (
        f"neither {', '.join([first, *others[:-1]])} nor {others[-1]}" if others else f"not {first}"
    )


def _apart(report: Report) -> list[tuple[str, float]]:
    """The parts that are no running of the user's code: compiling, and others if there were any."""
    others = [
        ("Timing operations", report.profile_seconds),
        ("Racing backends", report.race_seconds),
    ]
    return [
        ("Compiling", min(report.compile_seconds, report.seconds)),
        *(part for part in others if part[1]),
    ]


_ELSEWHERE = (
    " Everything else includes any backward passes: autograd runs them operation by operation, "
    "outside of the graphs."
)


def _versions(report: Report) -> str:
    return " · ".join(f"{name} {version}" for name, version in report.versions)


def _parts(report: Report) -> tuple[list[str], list[list[str]]]:
    """Shares of the wall time. A graph's time can hold another's, so a share is capped at all."""
    graphs = min(sum(g.run_seconds for g in report.graphs), report.seconds)
    backward = min(sum(g.backward_seconds for g in report.graphs), report.seconds)
    rest = max(report.run_seconds - graphs - backward, 0.0)
    spent = [*_apart(report), ("Running graphs", graphs)]
    spent += [("Their backward passes", backward)] if backward else []
    spent += [("Everything else", rest)]
    rows = [_share(name, value, report.seconds) for name, value in spent]
    return ["Part", "Time", "Share", ""], [*rows, ["Whole run", seconds(report.seconds), "", ""]]


def _share(name: str, value: float, whole: float) -> list[str]:
    share = value / whole if whole > 0 else 0.0
    return [name, seconds(value), percent(share), "█" * round(share * _BAR)]


def _graphs(report: Report) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            graph.id,
            place_graph(report, graph).label,
            seconds(graph.compile_seconds) if graph.compiled_now else "reused",
            f"{graph.calls:,}",
            seconds(graph.run_seconds),
            seconds(graph.run_seconds / graph.calls) if graph.calls else "",
        ]
        for graph in report.graphs
    ]
    return ["Graph", "Ran in", "Compile", "Calls", "Run", "A call"], rows


def _operators(report: Report) -> tuple[list[str], list[list[str]]]:
    """What operators take in eager, over all calls of this run, and where they ran."""
    rows = [
        [
            each.name,
            f"{each.calls:,}",
            seconds(each.seconds),
            percent(each.share),
            ", ".join(engine or _EITHER for engine in each.engines),
        ]
        for each in operator_times(report)[:_OPERATORS]
    ]
    return ["Operator", "Calls", "In eager", "Share", "Ran in"], rows


def _untimed(report: Report) -> str:
    """Which graphs' operations could not be timed, and why; empty where all were, or none asked."""
    return " ".join(
        sentence(f"The operations of {graph.id} could not be timed: {graph.untimed}")
        for graph in report.graphs
        if graph.untimed
    )


def _frames(report: Report) -> tuple[list[str], list[list[str]]]:
    rows = [
        [
            " ".join([function_name(frame.name), *([f"({frame.id})"] if frame.id else [])]),
            frame.outcome,
            seconds(frame.compile_seconds) if frame.compile_seconds else "",
            f"{frame.guards:,}",
            seconds(frame.guard_seconds) if frame.guard_seconds else "",
            ", ".join(frame.graphs),
            clip(" ".join(frame.reason.split()), _REASON),
        ]
        for frame in report.frames[:_FRAMES]
    ]
    if len(report.frames) > _FRAMES:
        rows.append([f"… {len(report.frames) - _FRAMES:,} more", "", "", "", "", "", ""])
    return ["Function", "Outcome", "Compile", "Guards", "A check", "Graphs", "Why"], rows
