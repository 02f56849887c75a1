"""What a run gained over plain code, and what it cost, in words."""

from dynamo_ext.analysis import speed
from dynamo_ext.analysis.placement import EAGER
from dynamo_ext.formatting import count, listing, seconds
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report

HEADERS = ("Per call", "In eager", "Speed")
_VERDICTS = {
    "faster": "",
    "slower": "slower, ",
    "same": "about as fast as plain, ",
    "unclear": "unclear, ",
}
_LOADED = 0.1  # seconds of loading something from which they are worth a word
_LITTLE = 0.05  # seconds of compiling that are not worth a word


def sentence(report: Report) -> str:
    """The gain of the whole cell, or why it is not known and what measures it."""
    found = speed.cell_gain(report)
    if isinstance(found, str) and (loops := speed.loops_left_plain(report)):
        longest = max(loops, key=lambda loop: loop.plain)
        plain, captured = seconds(longest.python), seconds(longest.captured)
        later = "" if speed.plain_loops(report) else " in later runs"
        return (
            f"as plain{later}: the turns of its {longest.place} run in Python, where "
            f"one takes {plain}; captured, it took {captured}"
            f"{' (measured by an earlier kernel)' if longest.earlier else ''}."
        )
    if isinstance(found, str) and speed.is_plain(report):
        return f"as plain: {found}."
    if isinstance(found, str):
        nameable = report.backend.isidentifier() and report.backend not in {EAGER, "auto"}
        named = f" -b {report.backend}" if nameable else ""
        command = f"%%dynamo compare{named}" if report.cell else "dynamo_ext.compare()"
        return f"not measured: {found}." + (f" {command} measures it." if report.graphs else "")
    times = f"{seconds(found.seconds)} where plain takes {seconds(found.plain)}"
    # One plain run has no interval.
    ends = f" ({found.low:.2f}–{found.high:.2f})" if found.low < found.high else ""
    gained = f"{found.ratio:.2f}×{ends}, by {found.source}"
    return f"{_VERDICTS[found.verdict]}{times}: {gained}."


def cost(report: Report) -> str:
    """What compiling took, and after how many runs it has paid."""
    now, whole = report.compile_seconds + report.race_seconds, speed.spent(report)
    if whole < _LITTLE:
        return "nothing was compiled."
    what = "compiling and racing" if report.race_seconds else "compiling"
    some = now >= _LITTLE
    said = f"{what} took {seconds(now)}" if some else "nothing was compiled in this run"
    if words := loads(report):
        said += f", and {words}"
    if report.spent_before >= _LITTLE:
        said += f", {seconds(whole)} over all runs" if some else f"; {seconds(whole)} before"
    found = speed.cell_gain(report)
    known = not isinstance(found, str) and found.verdict != "unclear"
    if not (known or speed.loops_left_plain(report) or speed.is_plain(report)):
        return f"{said}."
    paid = None if isinstance(found, str) else speed.runs_until_paid(report, found)
    pays = "it does not pay" if paid is None else f"it pays after {count(paid, 'run')}"
    return f"{said}; {pays}."


def loads(report: Report) -> str:
    """What was loaded before the run, and how long that took; empty where it took little."""
    long = [f"{name} took {seconds(took)}" for name, took in report.loads if took >= _LOADED]
    return f"loading {listing(long)}" if long else ""


def cells(graph: Graph) -> list[str]:
    """What a row of the graphs has under ``HEADERS``: seconds of one call, and the gain."""
    found = speed.gain(graph)
    if found is None:
        return [seconds(graph.run_seconds / graph.calls) if graph.calls else "", "", ""]
    return [seconds(found.engine), seconds(found.eager), f"{found.low:.2g}–{found.high:.2g}×"]
