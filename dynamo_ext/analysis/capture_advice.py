"""What keeps code from capture, or compiles it again, and what to do about it."""

import math
import re
from collections.abc import Iterator

from dynamo_ext.analysis.advice_step import MAX_LISTED, Advice, clause, how_often
from dynamo_ext.analysis.break_location import (
    ON_PURPOSE,
    in_package,
    is_torchs_own,
    line_in_words,
    origin,
    package,
    where,
)
from dynamo_ext.analysis.breaks import COMPREHENSIONS, break_of, cause_of, remedy
from dynamo_ext.analysis.library_breaks import library_breaks
from dynamo_ext.analysis.recompiles import Changes, changes
from dynamo_ext.analysis.speed import LITTLE
from dynamo_ext.formatting import count, listing, seconds
from dynamo_ext.records.capture import Frame, GraphBreak
from dynamo_ext.records.report import Fallback, Report

_TORCHS_REASON = "See Code for torch's own reason."
_NOTABLE = 0.1  # of the run without compiling, from which code outside of graphs is worth a word
_WORTH_A_STEP = 0.2  # from which it is worth having a function captured that calls the graphs

_SMALL_WORDS = frozenset({"A", "An", "The", "It", "Its", "This", "What"})
"""Words that have a capital letter only where a sentence begins."""


def limits(report: Report) -> Iterator[Advice]:
    """Functions that were compiled so often that they stay in eager."""
    for fallback in report.fallbacks:
        if fallback.cause != "recompile_limit":
            continue
        frame = _frame(report, fallback)
        own = [r for r in report.recompiles if frame is None or r.function == frame.name]
        found = changes(own)
        times = sum(each.times for each in found)
        why = f", because {found[0].what} changed each time{_examples(found[0])}" if found else ""
        took = sum(each.seconds for each in found)
        yield Advice(
            "recompile-limit",
            f"{_name(report, frame)} was compiled so often that it stays in eager now{why}",
            found[0].step if found else fallback.remedy,
            f"{count(times, 'recompile')} in this run{_which_took(took)}"
            if times
            else "torch's recompile limit",
            0.9,
            "Guards" if found else "Fallbacks",
            took,
        )


def uncaptured(report: Report) -> Iterator[Advice]:
    """Functions that stay in Python for another reason than a limit."""
    for fallback in report.fallbacks:
        is_kept = fallback.stage == "capture" and fallback.scope != "run"
        if not is_kept or fallback.cause == "recompile_limit":
            continue
        cut, harmless = break_of(report, fallback), fallback.harmless
        # What the code of a library does is one advice (``library``).
        if in_package(cut) if cut is not None else harmless and not fallback.remedy:
            continue
        name = _name(report, _frame(report, fallback))
        # Where nearly all that takes time is in graphs, nothing is gained by what calls them.
        idle = _share_outside(report) < _WORTH_A_STEP
        if cut is not None:
            cause = cause_of(cut)
            at = "" if is_torchs_own(cut) else where(cut)
            why = f"at {at} {cause.because}" if at else cause.because
            step = remedy(report, fallback) or _TORCHS_REASON
            harmless = cause.harmless and fallback.cause != "loop"
        elif fallback.exception == "RecursionError":
            # Which is all it says.
            why = "to trace it goes deeper than Python's recursion limit"
            step = (
                "Raise the limit with sys.setrecursionlimit(), or do what nests so deeply before "
                "the compiled code."
            )
        else:
            why, step = _first_sentence(fallback.message), fallback.remedy
        yield Advice(
            "uncaptured",
            f"{name} runs as plain Python: {why}",
            step,
            f"{how_often(fallback.count)} in this run{_outside(report)}",
            0.05 if harmless or idle else 0.6 if report.graphs else 0.72,
            "Code",
        )


def libraries(report: Report) -> Iterator[Advice]:
    """What the code of installed packages keeps from capture: no line there is the user's."""
    for found in library_breaks(report):
        places = list(dict.fromkeys(line_in_words(origin(each)) for each in found.breaks))
        of = found.package if not found.harmless else None
        again = [r for r in report.recompiles if of and package(r.line) == of]
        took = sum(r.compile_seconds for r in again)
        times = count(sum(r.count for r in again), "recompile")
        also = f"; {times} of its functions{_which_took(took)}" if again else ""
        lines = found.called_at(MAX_LISTED)
        via = f", called at {lines}," if lines else ""
        whys = found.reasons
        why = f" because {whys[0]}" if len(whys) == 1 else f", for {len(whys):,} reasons"
        yield Advice(
            "library",
            f"The code of {found.package}{via} splits the graph{why}: "
            f"{listing(places, MAX_LISTED)}",
            found.step,
            f"{count(len(report.graphs), 'graph')} in this run{also}{_outside(report)}",
            0.05 if found.harmless else 0.6,
            "Code",
            took,
        )


def breaks(report: Report) -> Iterator[Advice]:
    """What splits graphs, by its cause."""
    eager = {id(break_of(report, f)) for f in report.fallbacks if f.stage == "capture"}
    groups: dict[tuple[str, str], dict[str, list[GraphBreak]]] = {}
    for index, each in enumerate(report.breaks):
        line = origin(each)
        outside = line is not None and line.in_cell and _splits_nothing(report, index, line.line)
        # What torch stops at by itself does not matter, unless nothing is captured for it.
        lost = not report.graphs and each.registry_id != ON_PURPOSE
        own = lost if is_torchs_own(each) else not in_package(each)
        if id(each) not in eager and not outside and own:
            cause = cause_of(each)
            ways = groups.setdefault((cause.because, cause.step), {})
            ways.setdefault(line_in_words(line), []).append(each)
    for (because, _), ways in groups.items():
        # Of the ways that lead to a line, the one from the cell says most.
        breaks = [
            next((each for each in group if each.line and each.line.in_cell), group[0])
            for group in ways.values()
        ]
        called, cause = breaks[0], cause_of(breaks[0])
        at = where(breaks[0]) if len(breaks) == 1 else listing([*filter(None, ways)], MAX_LISTED)
        verb = "splits" if len(breaks) == 1 else "each split"
        lead = f"{at[0].upper()}{at[1:]} {verb} the graph" if at else "The graph is split"
        if not report.graphs and is_torchs_own(called):
            lead = "Nothing is captured"
        yield Advice(
            "break",
            f"{lead} because {because}",
            cause.step or _TORCHS_REASON,
            f"{count(len(report.graphs), 'graph')} in this run{_outside(report)}",
            0.05 if cause.harmless else 0.4,
            "Code",
        )


def _splits_nothing(report: Report, index: int, line: int) -> bool:
    """Whether a cell's operations, but for negligible graphs, are all before or after a line."""
    least = LITTLE * sum(graph.run_seconds for graph in report.graphs)
    lines = [
        operation.line.line
        for graph in report.graphs
        if graph.run_seconds >= least
        for operation in graph.operations
        if operation.line is not None and operation.line.in_cell
    ]
    if lines and line == max(lines):
        # The break that ended the last graph, and those after it.
        ended = report.graphs[-1].ended_by
        return ended is not None and index >= ended
    return bool(lines) and not min(lines) <= line <= max(lines)


def recompiles(report: Report) -> Iterator[Advice]:
    """What compiled again, by its remedy."""
    if any(f.cause == "recompile_limit" for f in report.fallbacks):
        return
    total = sum(r.count for r in report.recompiles)
    told = {found.package for found in library_breaks(report) if not found.harmless}
    steps: dict[str, list[Changes]] = {}
    for each in changes([r for r in report.recompiles if package(r.line) not in told]):
        if not each.prevented:
            steps.setdefault(each.step, []).append(each)
        else:
            step = 'torch.compiler.set_stance("default") lets it be compiled.'
            if report.mode == "run":
                step = "Run it once under %%dynamo with such values; run never compiles."
            yield Advice(
                "not-reused",
                f"{count(each.times, 'call')} fitted no compiled code, because {each.what} "
                f"changed{_examples(each)}",
                step,
                "ran eagerly",
                0.7,
                "Guards",
            )
    for step, group in steps.items():
        times = sum(each.times for each in group)
        share = f"{times:,} of {count(total, 'recompile')}"
        lead = share if total > times else count(times, "recompile")
        took = sum(each.seconds for each in group)
        again, spent = (" again", took) if took else ("", report.compile_seconds)
        yield Advice(
            "recompile",
            f"{lead} came from {listing([e.what + _examples(e) for e in group], MAX_LISTED)}",
            step,
            f"compiling{again} took {seconds(spent)} of this run's {seconds(report.seconds)}",
            0.06 if group[0].harmless else 0.3 + 0.3 * min(times, 8) / 8,
            "Guards",
            took,
        )


def _frame(report: Report, fallback: Fallback) -> Frame | None:
    return next((f for f in report.frames if f.id == fallback.subject), None)


def _name(report: Report, frame: Frame | None) -> str:
    if frame is not None and frame.turn:
        return f"Line {frame.turn}"
    if frame is None or frame.is_cell:
        captured = any(f.is_cell and f.graphs for f in report.frames)
        return "Part of the cell's own code" if captured else "The cell's own code"
    return "A comprehension" if frame.name in COMPREHENSIONS else f"Function {frame.name}"


def _outside(report: Report) -> str:
    """What all breaks and uncaptured functions together cost at most, where it is notable."""
    if not _share_outside(report) >= _NOTABLE:
        return ""
    outside, whole = map(seconds, (report.outside_seconds, report.run_seconds))
    return f"; code outside of graphs took {outside} of the {whole} without compiling"


def _share_outside(report: Report) -> float:
    """The share of the run without compiling that is code outside of graphs; NaN if unknown."""
    untimed = any(graph.backward_untimed for graph in report.graphs)
    if untimed or not report.graphs or not report.run_seconds:
        return math.nan
    return report.outside_seconds / report.run_seconds


def _which_took(took: float) -> str:
    return f", which took {seconds(took)} of compiling" if took else ""


def _examples(change: Changes) -> str:
    values = list(change.values[:MAX_LISTED])
    more = ", …" if len(change.values) > MAX_LISTED else ""
    return f" ({', '.join(values)}{more})" if len(values) > 1 else ""


def _first_sentence(text: str) -> str:
    """It, to go on after a colon."""
    first = re.split(r"\.\s+(?=[A-Z`])", clause(text))[0]
    word, space, rest = first.partition(" ")
    return f"{word.lower()}{space}{rest}" if word in _SMALL_WORDS else first
