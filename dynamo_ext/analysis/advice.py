"""What to do next, derived from the record alone: each step with its evidence."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dynamo_ext.analysis import capture_advice, kept_operations, placement, speed
from dynamo_ext.analysis.advice_step import MAX_LISTED, NEGLIGIBLE_WEIGHT, Advice, clause, how_often
from dynamo_ext.analysis.placement import EAGER, coverage, operator_times
from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.analysis.source_hints import OPTIMIZER, optimizer
from dynamo_ext.analysis.speed import SHORT_CELL, cell_gain, plain_loops
from dynamo_ext.formatting import count, listing, percent, seconds
from dynamo_ext.records.capture import LoopTurns
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.report import Fallback, Report

_DYNAMIC = "%%dynamo --dynamic"

LITTLE = 0.02
"""The share of the operations, and of the run's seconds, below which a problem comes last."""

_MUCH = 5.0
"""Seconds of compiling that, in a cell of a few milliseconds, the report says never pay."""

_IDLE = NEGLIGIBLE_WEIGHT / 2
"""The weight of what costs nothing as the code runs now."""

COSTLY = 2.0
"""Seconds of a run, at least a tenth of it, that put a problem before those of unknown cost."""


@remembered
def advise(report: Report) -> tuple[Advice, ...]:
    """Every step that the record suggests, the most useful one first.

    What is known to have cost much of the run comes first, by its seconds if they are twice those
    of others; what needs no change comes last.
    """
    if report.error:
        # The code's own error comes first, and what led to it may be recorded as a break.
        return ()
    gone = next((f for f in report.fallbacks if f.stage == "unavailable"), None)
    if gone is not None:
        problem = f"{report.backend} is not available here: {clause(gone.lack or gone.message)}"
        evidence = f"{count(len(report.graphs), 'captured graph')} ran eagerly"
        return (Advice("unavailable", problem, gone.remedy, evidence, 1.0),)
    found = [
        *_not_compiled(report),
        *_kept_out(report),
        *capture_advice.limits(report),
        *_failures(report),
        *_unsupported(report),
        *_left_as_it_is(report),
        *capture_advice.uncaptured(report),
        *capture_advice.libraries(report),
        *capture_advice.breaks(report),
        *capture_advice.recompiles(report),
        *_too_small(report),
    ]
    if loops := plain_loops(report) or (report.compile_seconds and speed.loops_left_plain(report)):
        # What is in the way of captured turns costs nothing while they run in Python.
        found = [replace(each, weight=min(each.weight, _IDLE)) for each in found]
        found.append(_plain_loop(loops))
    elif all(advice.weight < NEGLIGIBLE_WEIGHT for advice in found):
        found += _nothing_wrong(report)
    least = max(COSTLY, report.seconds / 10)
    most = max((advice.seconds for advice in found), default=0.0)

    def order(advice: Advice) -> tuple[float, float]:
        if advice.seconds < least or advice.weight < NEGLIGIBLE_WEIGHT:
            return math.inf, -advice.weight
        # Seconds are others in each run: up to twice as many do not decide.
        return int(math.log2(most / advice.seconds)), -advice.weight

    found = [replace(each, step=as_written_for(each.step, report)) for each in found]
    return tuple(sorted(found, key=order))


def as_written_for(step: str, report: Report) -> str:
    """A step whose command has what stood behind the cell's ``%%dynamo``, too, and its names.

    ``Mark it dynamic: %%dynamo --dynamic.`` is after ``-b ts``
    ``Mark it dynamic: %%dynamo -b ts --dynamic.``, and for a function
    ``Mark it dynamic: dynamo_ext.optimize(…, dynamic=True).``
    """
    line, source = report.line, report.cell.source if report.cell is not None else ""
    if OPTIMIZER in step and (name := optimizer(source)):
        step = step.replace(f"{OPTIMIZER}.", f"{name}.")
    if report.cell is None:
        step = step.replace(_DYNAMIC, "dynamo_ext.optimize(…, dynamic=True)")
        return step.replace("%%dynamo compare", "dynamo_ext.compare()")
    if _DYNAMIC in step and "--dynamic" in line.split():
        return "Sizes are dynamic already: what the code does with this one fixes it."
    return step.replace("%%dynamo --", f"%%dynamo {line} --") if line else step


def _not_compiled(report: Report) -> Iterator[Advice]:
    if report.mode == "run" and not report.graphs and not report.recompiles:
        problem = "Nothing that was compiled fits this code and these inputs"
        yield Advice("not-compiled", problem, "Run it under %%dynamo first.", "nothing ran", 0.9)


def _kept_out(report: Report) -> Iterator[Advice]:
    evidence = f"{count(len(report.graphs), 'graph')} in this run"
    late = [f for f in report.fallbacks if f.cause == "time"]
    if late:
        problem = clause(next((f for f in late if f.scope == "run"), late[0]).message)
        yield Advice("first-run", problem, late[0].remedy, evidence, 0.9)
    for fallback in report.fallbacks:
        if fallback.scope == "run" and fallback.cause != "time":
            lead, weight = ("", 0.06) if fallback.harmless else ("Dynamo is kept out: ", 0.95)
            problem = f"{lead}{clause(fallback.message)}"
            yield Advice("kept-out", problem, fallback.remedy, evidence, weight)


def _failures(report: Report) -> Iterator[Advice]:
    kinds = (
        ("verify", "gave other results than eager and was put aside", 0.85),
        ("lower", "could not be built", 0.8),
        ("run", "failed while it ran", 0.75),
    )
    for stage, verb, weight in kinds:
        found = [f for f in report.fallbacks if f.stage == stage and f.cause != "time"]
        if not found:
            continue
        first = max(found, key=lambda f: (bool(f.remedy), f.count))
        where = first.operator or f"the engine for {first.scope} {first.subject}"
        step = "Compare the other backends on this cell: %%dynamo compare."
        others = f"; {len(found) - 1:,} more" if len(found) > 1 else ""
        yield Advice(
            stage,
            f"{where[0].upper()}{where[1:]} {verb}: {clause(first.message or first.exception)}",
            first.remedy or step,
            f"eager's result was used {how_often(first.count)}{others}",
            weight,
        )


def _unsupported(report: Report) -> Iterator[Advice]:
    groups: dict[tuple[bool, str], list[Fallback]] = {}
    for each in report.fallbacks:
        if each.stage == "unsupported":
            groups.setdefault((bool(each.operator), each.message), []).append(each)
    covered = coverage(report)
    short = sum(p.operations for g in report.graphs for p in g.partitions if p.short)
    split = [len(g.partitions) for g in report.graphs if len(g.partitions) > 1]
    lead = f"{len(split):,} graphs run" if len(split) > 1 else "the graph runs"
    times = placement.eager_seconds(report)
    whole = sum(each.seconds for each in operator_times(report))
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
                f"{count(covered.total, 'operation')} out of {report.backend}: {clause(message)}"
            )
            evidence = f"{percent(kept / max(covered.total, 1))} of the operations{also}"
            if message in times:
                evidence += f"; these have {percent(times[message] / whole)} of their time in eager"
                evidence += f", {seconds(times[message])} over all calls"
            if split:
                evidence += f"; {lead} in {sum(split):,} parts"
        else:
            share = 0.6
            names = list(dict.fromkeys(f"{f.scope} {f.subject}" for f in group))
            left = listing(names, MAX_LISTED)
            problem = f"{report.backend} leaves {left} to eager: {clause(message)}"
            evidence = f"met {how_often(kept)}"
        otherwise = "See which backend takes it: %%dynamo compare."
        step = next((f.remedy for f in group if f.remedy), otherwise)
        took = times.get(message, 0.0)
        little = max(share, took / report.seconds if report.seconds else 0.0) < LITTLE
        weight = 0.05 if little or all(f.harmless for f in group) else 0.3 + 0.4 * share
        yield Advice("unsupported", problem, step, evidence, weight, seconds=took)


def _left_as_it_is(report: Report) -> Iterator[Advice]:
    """Graphs that were not raced, and products that stay in float32."""
    if placement.race_outcome(report) == "unraced":
        named = "%%dynamo --opt candidates=openvino+onnxrt"
        if report.cell is None:
            named = 'dynamo_ext.optimize("auto", options={"candidates": "openvino+onnxrt"})'
        step = f"Name backends to have them raced: {named}."
        graphs = count(len(report.graphs), "graph")
        yield Advice("not-raced", "auto raced no graph", step, graphs, 0.2, "Timing")
    found = kept_operations.clauses(report)
    if found:
        rest = [f"{len(found) - MAX_LISTED:,} more"] if found[MAX_LISTED:] else []
        problem = "; ".join([*found[:MAX_LISTED], *rest])
        evidence = "so the results are within the bound of the precision"
        yield Advice("kept", problem, "Nothing needs to be done.", evidence, 0.05)


def _too_small(report: Report) -> Iterator[Advice]:
    """What cannot pay: a run takes so little that its compiling is hundreds of runs."""
    took, gained = speed.spent(report), cell_gain(report)
    pays = not isinstance(gained, str) and gained.verdict == "faster"
    if pays or not report.graphs or took < _MUCH or not 0 < report.run_seconds <= SHORT_CELL:
        return
    runs = int(took / report.run_seconds)
    yield Advice(
        "too-small",
        f"A run takes {seconds(report.run_seconds)}, and compiling took {seconds(took)}: if a run "
        f"took no time, that would pay after {runs:,} runs",
        "It can pay where this code runs often, as in a program; else leave %%dynamo out.",
        count(len(report.graphs), "graph"),
        0.92,
        "Timing",
    )


def _plain_loop(loops: Sequence[LoopTurns]) -> Advice:
    places = listing([f"the {loop.place}" for loop in loops], MAX_LISTED)
    step = "There is nothing to do; %%dynamo --capture all shows what captured turns lack."
    problem = f"Plain Python is faster in {places}"
    return Advice("plain-loop", problem, step, "some turns were timed each way", NEGLIGIBLE_WEIGHT)


def _nothing_wrong(report: Report) -> Iterator[Advice]:
    covered, gained = coverage(report), cell_gain(report)
    if not covered.graphs or report.interrupted:
        return
    decided = report.profile_busy_cores < BUSY_CORES
    costliest = next(iter(operator_times(report)), None) if decided else None
    if costliest and (report.backend == EAGER or covered.in_engine):
        topic, step = "profiled", "See which backend is fastest at it: %%dynamo compare."
        share = percent(costliest.share)
        problem = f"`{costliest.name}` has {share} of the operations' time in eager"
        evidence = f"{count(costliest.calls, 'call')} of it; each operation was timed by itself"
    elif not isinstance(gained, str) and gained.verdict == "slower":
        topic, step = "slower", "See whether another backend is faster: %%dynamo compare."
        problem = f"Nothing is in the way, and {report.backend} is slower than plain code here"
        evidence = f"by {gained.source}"
    elif not covered.in_engine and report.backend == EAGER:
        topic, step = "captured", "See which backend is faster: %%dynamo compare."
        problem = "The code is captured, and eager runs it"
        evidence = count(covered.captured, "operation")
    else:
        return
    yield Advice(topic, problem, step, evidence, 0.1, "Timing")
