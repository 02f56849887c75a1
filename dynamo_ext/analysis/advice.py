"""What to do next, derived from the record alone: each step with its evidence."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from dynamo_ext.analysis.break_location import (
    ON_PURPOSE,
    in_package,
    is_torchs_own,
    origin,
    package,
    place,
    where,
)
from dynamo_ext.analysis.breaks import BUILD_BEFORE, break_of, cause_of, remedy
from dynamo_ext.analysis.placement import EAGER, coverage, operator_times, shares_by_reason
from dynamo_ext.analysis.recompiles import Changes, changes
from dynamo_ext.formatting import count, listing, percent
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.report import Fallback, Frame, GraphBreak, Report

COMPILE_DOMINATES = 3.0
"""Compile seconds over run seconds from which a first run says nothing about speed."""

MAX_LISTED = 3

_TORCHS_REASON = "See Code for torch's own reason."
_BEFOREHAND = (
    "If it only prepares itself at its first call, make that call before the compiled code."
)
_COMPUTES_ALONE = (
    "Else compile what computes, as in model.forward = dynamo_ext.optimize(…)(model.forward), and "
    "call the rest in a plain cell."
)

_SMALL_WORDS = frozenset({"A", "An", "The", "It", "Its", "This", "What"})
"""Words that have a capital letter only where a sentence begins."""

NEGLIGIBLE_WEIGHT = 0.1
"""Weights below it are of what need not be changed."""


@dataclass(frozen=True)
class Advice:
    """One step.

    ``topic`` is the kind of situation, ``problem`` what is in the way and why, ``step`` what to do;
    ``evidence`` counts what the record holds, and ``part`` is the title of the report's part that
    shows it. ``weight`` is from 0 (nice to know) to 1 (nothing works before that is done).
    """

    topic: str
    problem: str
    step: str
    evidence: str
    weight: float
    part: str = "Fallbacks"


def advise(report: Report) -> tuple[Advice, ...]:
    """Every step that the record suggests, the most useful one first."""
    if report.error:
        # The code's own error comes first, and what led to it may be recorded as a break.
        return ()
    gone = next((f for f in report.fallbacks if f.stage == "unavailable"), None)
    if gone is not None:
        problem = f"{report.backend} is not available here: {_clause(gone.lack or gone.message)}"
        evidence = f"{count(len(report.graphs), 'captured graph')} ran eagerly"
        return (Advice("unavailable", problem, gone.remedy, evidence, 1.0),)
    found = [
        *_kept_out(report),
        *_limits(report),
        *_failures(report),
        *_unsupported(report),
        *_uncaptured(report),
        *_libraries(report),
        *_breaks(report),
        *_recompiles(report),
    ]
    if all(advice.weight < NEGLIGIBLE_WEIGHT for advice in found):
        found += _nothing_wrong(report)
    return tuple(sorted(found, key=lambda advice: -advice.weight))


def _kept_out(report: Report) -> Iterator[Advice]:
    evidence = f"{count(len(report.graphs), 'graph')} in this run"
    for fallback in report.fallbacks:
        if fallback.scope == "run":
            problem = f"Dynamo is kept out: {_clause(fallback.message)}"
            yield Advice("kept-out", problem, fallback.remedy, evidence, 0.95)


def _limits(report: Report) -> Iterator[Advice]:
    for fallback in report.fallbacks:
        if fallback.cause != "recompile_limit":
            continue
        frame = _frame(report, fallback)
        own = [r for r in report.recompiles if frame is None or r.function == frame.name]
        found = changes(own)
        times = sum(each.times for each in found)
        why = f", because {found[0].what} changed each time{_examples(found[0])}" if found else ""
        yield Advice(
            "recompile-limit",
            f"{_name(report, frame)} was compiled so often that it stays in eager now{why}",
            found[0].step if found else fallback.remedy,
            f"{count(times, 'recompile')} in this run" if times else "torch's recompile limit",
            0.9,
            "Guards" if found else "Fallbacks",
        )


def _failures(report: Report) -> Iterator[Advice]:
    kinds = (
        ("verify", "gave other results than eager and was put aside", 0.85),
        ("lower", "could not be built", 0.8),
        ("run", "failed while it ran", 0.75),
    )
    for stage, verb, weight in kinds:
        found = [f for f in report.fallbacks if f.stage == stage]
        if not found:
            continue
        first = max(found, key=lambda f: (bool(f.remedy), f.count))
        where = first.operator or f"the engine for {first.scope} {first.subject}"
        others = f"; {len(found) - 1:,} more" if len(found) > 1 else ""
        yield Advice(
            stage,
            f"{where[0].upper()}{where[1:]} {verb}: {_clause(first.message or first.exception)}",
            first.remedy or "Compare the other backends on this cell: %%dynamo compare.",
            f"eager's result was used {_times(first.count)}{others}",
            weight,
        )


def _unsupported(report: Report) -> Iterator[Advice]:
    groups: dict[tuple[bool, str], list[Fallback]] = {}
    for each in report.fallbacks:
        if each.stage == "unsupported":
            groups.setdefault((bool(each.operator), each.message), []).append(each)
    covered = coverage(report)
    every = [p for g in report.graphs for p in g.partitions]
    short = sum(p.operations for p in every if p.short)
    split = [len(g.partitions) for g in report.graphs if len(g.partitions) > 1]
    lead = f"{len(split):,} graphs run" if len(split) > 1 else "the graph runs"
    times = shares_by_reason(report)
    for (named, message), group in groups.items():
        kept = sum(f.count for f in group)
        if named:
            share = min((kept + short) / covered.total, 1.0) if covered.total else 0.0
            verb = "stands" if short == 1 else "stand"
            also = f"; {short:,} more {verb} in stretches too short for it" if short else ""
            names = list(dict.fromkeys(f"`{f.operator}`" for f in group))
            keep = "keeps" if len(names) == 1 else "keep"
            problem = (
                f"{listing(names, MAX_LISTED)} {keep} {kept:,} of "
                f"{count(covered.total, 'operation')} out of {report.backend}: {_clause(message)}"
            )
            evidence = f"{percent(kept / max(covered.total, 1))} of the operations{also}"
            if message in times:
                evidence += f"; these have {percent(times[message])} of their time in eager"
            if split:
                evidence += f"; {lead} in {sum(split):,} parts"
        else:
            share = 0.6
            names = list(dict.fromkeys(f"{f.scope} {f.subject}" for f in group))
            left = listing(names, MAX_LISTED)
            problem = f"{report.backend} leaves {left} to eager: {_clause(message)}"
            evidence = f"met {_times(kept)}"
        otherwise = "See which backend takes it: %%dynamo compare."
        step = next((f.remedy for f in group if f.remedy), otherwise)
        weight = 0.05 if all(f.harmless for f in group) else 0.3 + 0.4 * share
        yield Advice("unsupported", problem, step, evidence, weight)


def _uncaptured(report: Report) -> Iterator[Advice]:
    """Functions that stay in Python for another reason than a limit."""
    for fallback in report.fallbacks:
        is_kept = fallback.stage == "capture" and fallback.scope != "run"
        if not is_kept or fallback.cause == "recompile_limit":
            continue
        cut, harmless = break_of(report, fallback), fallback.harmless
        if cut is not None and in_package(cut):
            continue
        name = _name(report, _frame(report, fallback))
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
            f"{_times(fallback.count)} in this run",
            0.05 if harmless else 0.6 if report.graphs else 0.72,
            "Code",
        )


def _libraries(report: Report) -> Iterator[Advice]:
    """What the code of installed packages keeps from capture: no line there is the user's."""
    packages: dict[str, dict[str, list[GraphBreak]]] = {}
    for each in report.breaks:
        if name := in_package(each):
            packages.setdefault(name, {}).setdefault(place(origin(each)), []).append(each)
    for name, places in packages.items():
        causes = [cause_of(each) for group in places.values() for each in group]
        causes = [cause for cause in causes if cause.outside == BUILD_BEFORE][:1] or causes
        harmless = all(cause.harmless for cause in causes)
        whys = list(dict.fromkeys(cause.because for cause in causes))
        outside = dict.fromkeys(cause.outside for cause in causes if not cause.harmless)
        step = (
            f"{_BEFOREHAND} {_COMPUTES_ALONE}"
            if "" in outside
            else " ".join(o[0].upper() + o[1:] for o in outside)
        )
        again = sum(r.count for r in report.recompiles if package(r.line) == name)
        also = f"; {count(again, 'recompile')} of its functions" if again else ""
        calls = dict.fromkeys(place(x.line) for group in places.values() for x in group)
        lines = listing([each for each in calls if each and each not in places], MAX_LISTED)
        via = f", called at {lines}," if lines else ""
        why = f" because {whys[0]}" if len(whys) == 1 else f", for {len(whys):,} reasons"
        yield Advice(
            "library",
            f"The code of {name}{via} splits the graph{why}: {listing(list(places), MAX_LISTED)}",
            causes[0].step if harmless else step,
            f"{count(len(report.graphs), 'graph')} in this run{also}",
            0.05 if harmless else 0.6,
            "Code",
        )


def _breaks(report: Report) -> Iterator[Advice]:
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
            ways.setdefault(place(line), []).append(each)
    for (because, _), ways in groups.items():
        # Of the ways that lead to a line, the one from the cell says most.
        breaks = [
            next((each for each in group if each.line and each.line.in_cell), group[0])
            for group in ways.values()
        ]
        called, cause = breaks[0], cause_of(breaks[0])
        at = where(breaks[0]) if len(breaks) == 1 else listing([*filter(None, ways)], MAX_LISTED)
        verb = "splits" if len(breaks) == 1 else "split"
        lead = f"{at[0].upper()}{at[1:]} {verb} the graph" if at else "The graph is split"
        if not report.graphs and is_torchs_own(called):
            lead = "Nothing is captured"
        yield Advice(
            "break",
            f"{lead} because {because}",
            cause.step or _TORCHS_REASON,
            f"{count(len(report.graphs), 'graph')} in this run",
            0.05 if cause.harmless else 0.4,
            "Code",
        )


def _splits_nothing(report: Report, index: int, line: int) -> bool:
    """Whether all of the cell's operations are before or all after a break at one of its lines."""
    lines = [
        operation.line.line
        for graph in report.graphs
        for operation in graph.operations
        if operation.line is not None and operation.line.in_cell
    ]
    if lines and line == max(lines):
        # The break that ended the last graph, and those after it.
        ended = report.graphs[-1].ended_by
        return ended is not None and index >= ended
    return bool(lines) and not min(lines) <= line <= max(lines)


def _recompiles(report: Report) -> Iterator[Advice]:
    if any(f.cause == "recompile_limit" for f in report.fallbacks):
        return
    total = sum(r.count for r in report.recompiles)
    told = set(filter(None, map(in_package, report.breaks)))
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
        yield Advice(
            "recompile",
            f"{lead} came from {listing([e.what + _examples(e) for e in group], MAX_LISTED)}",
            step,
            f"compiling took {report.compile_seconds:.1f} s of this run's {report.seconds:.1f} s",
            0.06 if group[0].harmless else 0.3 + 0.3 * min(times, 8) / 8,
            "Guards",
        )


def _nothing_wrong(report: Report) -> Iterator[Advice]:
    covered = coverage(report)
    if not covered.graphs or report.interrupted:
        return
    decided = report.profile_busy_cores < BUSY_CORES
    costliest = next(iter(operator_times(report)), None) if decided else None
    compiling = report.compile_seconds > COMPILE_DOMINATES * max(report.run_seconds, 1e-9)
    weight = 0.1
    if costliest and (report.backend == EAGER or covered.in_engine):
        topic, step = "profiled", "See which backend is fastest at it: %%dynamo compare."
        share = percent(costliest.share)
        problem = (
            f"Nothing is in the way, and `{costliest.name}` has {share} of the operations' time "
            "in eager"
        )
        evidence = f"{count(costliest.calls, 'call')} of it; each operation was timed by itself"
    elif report.mode == "optimize" and compiling:
        topic, step = "first-run", "Run the cell again, or measure it: %%dynamo compare."
        raced, racing = (" and raced", " and racing") if report.race_seconds else ("", "")
        if raced:
            step = "Run the cell again: what won is remembered."
        problem = f"This run compiled{raced}, so its time says nothing about speed"
        spent = report.compile_seconds + report.race_seconds
        share = f"{spent / report.seconds if report.seconds else 0.0:.0%}"
        evidence = f"{share} of the time was compiling{racing}"
    elif not covered.in_engine and report.backend == EAGER:
        topic, step = "captured", "See which backend is faster: %%dynamo compare."
        problem = "The code is captured, and eager runs it"
        evidence = count(covered.captured, "operation")
    elif covered.in_engine:
        topic, step, weight = "all-in-engine", "What it gains: %%dynamo compare.", 0.05
        problem = "Nothing is in the way"
        evidence = f"{covered.in_engine:,} of {count(covered.total, covered.noun)} in the engine"
        if covered.in_engine == covered.total != covered.captured:
            evidence = f"all {count(covered.captured, 'operation')} in the engine"
    else:
        return
    yield Advice(topic, problem, step, evidence, weight, "Timing")


def _frame(report: Report, fallback: Fallback) -> Frame | None:
    return next((f for f in report.frames if f.id == fallback.subject), None)


def _name(report: Report, frame: Frame | None) -> str:
    if frame is not None and frame.turn:
        return f"Line {frame.turn}"
    if frame is None or frame.is_cell:
        captured = any(f.is_cell and f.graphs for f in report.frames)
        return "Part of the cell's own code" if captured else "The cell's own code"
    return f"Function {frame.name}"


def _examples(each: Changes) -> str:
    values = list(each.values[:MAX_LISTED])
    more = ", …" if len(each.values) > MAX_LISTED else ""
    return f" ({', '.join(values)}{more})" if len(values) > 1 else ""


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number:,} times"


def _first_sentence(text: str) -> str:
    """It, to go on after a colon."""
    first = re.split(r"\.\s+(?=[A-Z`])", _clause(text))[0]
    word, space, rest = first.partition(" ")
    return f"{word.lower()}{space}{rest}" if word in _SMALL_WORDS else first


def _clause(text: str) -> str:
    return " ".join(text.split("\n", maxsplit=1)[0].split()).rstrip(". ")
