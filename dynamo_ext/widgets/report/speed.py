"""What a run gained over eager, in words: an estimate, with what it rests on."""

from __future__ import annotations

from dynamo_ext.analysis.speed import Gain, gain, runs_until_paid, whole_gain
from dynamo_ext.formatting import count, percent, seconds
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

HEADERS = ("Per call", "In eager", "Speed")


def sentence(report: Report) -> str:
    """The gain of the whole run; empty where it is not known."""
    found = whole_gain(report)
    if found is None:
        return ""
    rests_on = f"{count(found.pairs, 'pair')} of calls" if found.pairs else "the races"
    whose = "its graphs"
    if found.is_part:
        whose = f"calls of {_part(found)} ({percent(found.share)} of the graphs' time)"
    if found.low <= 1.0 <= found.high:
        return f"By {rests_on}, {whose} are about as fast as in eager."
    times = f"{seconds(found.engine)}, and {seconds(found.eager)} in eager"
    paid = runs_until_paid(report, found)
    after = f" Compiling has paid after {count(paid, 'run')}." if paid else ""
    by = f"{found.ratio:.2f}× ({found.low:.2f}–{found.high:.2f})"
    return f"By {rests_on}, {whose} take about {times}: {by}.{after}"


def tile(report: Report) -> str:
    """The same as a number; empty where it is not known."""
    found = whole_gain(report)
    if found is None:
        return ""
    return f"≈ {found.ratio:.2g}× eager{f' in {_part(found)}' if found.is_part else ''}"


def _part(found: Gain) -> str:
    return f"{found.graphs:,} of {count(found.called, 'graph')}"


def cells(graph: Graph) -> list[str]:
    """What a row of the graphs has under ``HEADERS``: seconds of one call, and the gain."""
    found = gain(graph)
    if found is None:
        return [seconds(graph.run_seconds / graph.calls) if graph.calls else "", "", ""]
    return [seconds(found.engine), seconds(found.eager), f"{found.low:.2g}–{found.high:.2g}×"]
