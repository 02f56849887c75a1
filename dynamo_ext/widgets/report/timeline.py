"""When each function was captured, lowered and run, along the length of the run."""

from __future__ import annotations

from itertools import groupby
from typing import NamedTuple

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


class _Span(NamedTuple):
    kind: str
    start: float
    end: float


def length(report: Report) -> float:
    """Seconds from the run's start to its end, with what passed between the calls of a session."""
    compiled = (frame.compile_started + frame.compile_seconds for frame in report.frames)
    called = (graph.last_call_ended for graph in report.graphs)
    return max([report.seconds, *compiled, *called])


def track(report: Report, frame: Frame, slot: float, slots: int) -> Markup:
    """One sign for each ``slot`` of seconds: what was done most of the time for a function."""
    spans = _spans(frame, [g for g in report.graphs if g.frame == frame.id])
    kinds = [_kind(spans, number * slot, (number + 1) * slot) for number in range(slots)]
    pieces = [
        element("span", _SIGNS.get(kind, _NOTHING) * len(list(run)), class_=f"dx-time-{kind}")
        for kind, run in groupby(kinds)
    ]
    return element("span", markup.join(pieces), class_="dx-track")


def _spans(frame: Frame, graphs: list[Graph]) -> list[_Span]:
    spans = []
    if frame.compile_seconds:
        end = frame.compile_started + frame.compile_seconds
        spans.append(_Span("capture", frame.compile_started, end))
    for graph in graphs:
        if graph.compiled_now:
            end = graph.compile_started + graph.compile_seconds
            spans.append(_Span("lower", graph.compile_started, end))
        if graph.calls:
            first = graph.first_call_started + graph.first_call_seconds
            spans.append(_Span("first", graph.first_call_started, first))
            spans.append(_Span("later", first, graph.last_call_ended))
    return spans


def _kind(spans: list[_Span], start: float, end: float) -> str:
    taken = dict.fromkeys(_SIGNS, 0.0)
    for span in spans:
        taken[span.kind] += max(min(span.end, end) - max(span.start, start), 0.0)
    # A graph is lowered within its function's capture.
    taken["capture"] -= taken["lower"]
    most = max(taken, key=taken.__getitem__)
    return most if taken[most] > 0 else "none"
