"""When each function was captured, lowered and run, along the length of the run."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from dynamo_ext.records.capture import Frame
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import Markup, element

LEGEND = (
    "Along the run: ▒ capturing, █ lowering, ▓ the first call of a graph, with its check, "
    "░ later calls."
)
_SIGNS = {"capture": "▒", "lower": "█", "first": "▓", "later": "░"}
_NOTHING = "·"


def length(report: Report) -> float:
    """Seconds from the run's start to its end, with what passed between the calls of a session."""
    compiled = (frame.compile_started + frame.compile_seconds for frame in report.frames)
    called = (graph.last_call_ended for graph in report.graphs)
    return max([report.seconds, *compiled, *called])


def track(report: Report, frame: Frame, slot: float, slots: int) -> Markup:
    """One sign for each ``slot`` of seconds: what was done most of the time for a function."""
    spans = list(_spans(frame, [g for g in report.graphs if g.frame == frame.id]))
    kinds = [_kind(spans, number * slot, (number + 1) * slot) for number in range(slots)]
    pieces = [
        element("span", _SIGNS.get(kind, _NOTHING) * len(list(run)), class_=f"dx-time-{kind}")
        for kind, run in groupby(kinds)
    ]
    return element("span", markup.join(pieces), class_="dx-track")


def _spans(frame: Frame, graphs: list[Graph]) -> Iterator[tuple[str, float, float]]:
    """What was done for a function, each with its start and its end."""
    yield "capture", frame.compile_started, frame.compile_started + frame.compile_seconds
    for graph in graphs:
        if graph.compiled_now:
            yield "lower", graph.compile_started, graph.compile_started + graph.compile_seconds
        if graph.calls:
            first = graph.first_call_started + graph.first_call_seconds
            yield "first", graph.first_call_started, first
            yield "later", first, graph.last_call_ended


def _kind(spans: list[tuple[str, float, float]], start: float, end: float) -> str:
    taken = dict.fromkeys(_SIGNS, 0.0)
    for kind, began, ended in spans:
        taken[kind] += max(min(ended, end) - max(began, start), 0.0)
    # A graph is lowered within its function's capture.
    taken["capture"] -= taken["lower"]
    most = max(taken, key=taken.__getitem__)
    return most if taken[most] > 0 else "none"
