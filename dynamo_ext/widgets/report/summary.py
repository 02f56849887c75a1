"""What happened, in one sentence to act on, and the counts."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.advice_step import NEGLIGIBLE_WEIGHT, Advice
from dynamo_ext.analysis.break_location import where
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.placement import EAGER, Coverage, coverage, race_outcome
from dynamo_ext.analysis.speed import CellGain, cell_gain, plain_loops
from dynamo_ext.formatting import clip, count, listing, printable, remedy, seconds, sentence
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, element, prose, quiet_words
from dynamo_ext.widgets.report import autotuning, speed

TITLE = "Summary"
_MAX_STEPS = 4
_MAX_CHARS, _STEP_CHARS = 400, 300
# What IPython makes of a further cell magic, under the comments that stand for the magic lines.
_CELL_MAGIC = re.compile(r"\A(?:\s*#.*\n|\s*\n)*get_ipython\(\)\.run_cell_magic\('([\w.]+)'")
_MAX_NAMES = 3
_PLAIN = frozenset({"skipped", "failed", "eager"})


def covered_words(covered: Coverage, kind: str = "") -> str:
    """``all 14 operations`` or ``12 of 14 operations``; ``kind`` says which (``captured``).

    All are counted as they were captured, and a part as ATen's operations, which are placed.
    """
    noun = f"{kind} operation".lstrip()
    if covered.total == covered.in_engine:
        return f"all {count(covered.captured, noun)}" if covered.captured > 1 else f"its 1 {noun}"
    noun = noun if covered.total == covered.captured else "ATen operation"
    return f"{covered.in_engine:,} of {count(covered.total, noun)}"


def status(report: Report) -> tuple[str, str]:
    """Judge the run: ``good``, ``part`` or ``bad``, and the sign and word for it."""
    covered, raced, gained = coverage(report), race_outcome(report), cell_gain(report)
    eager_frames = any(frame.outcome in {"eager", "failed"} for frame in report.frames)
    slower = isinstance(gained, CellGain) and gained.verdict == "slower"
    stages = {fallback.stage for fallback in report.fallbacks}
    gave_way = bool(stages) or eager_frames or any(r.prevented for r in report.recompiles)
    verdicts = [
        ("unavailable" in stages, "bad", "✗ backend unavailable"),
        (report.interrupted, "part", "◐ interrupted"),
        (report.refused, "bad", "✗ refused"),
        (bool(report.error), "bad", "✗ stopped by an error"),
        (bool(plain_loops(report)), "good", "✓ plain Python is faster"),
        (not report.graphs, "bad", "✗ no graph"),
        (not covered.graphs, "bad", "✗ nothing ran compiled"),
        (raced == "unraced", "part", "○ not raced"),
        (raced == "eager" and stages <= {"capture"}, "good", "✓ eager is fastest"),
        (report.backend == EAGER and not gave_way, "good", "✓ captured"),
        (report.backend == EAGER, "part", "◐ captured in part"),
        (not covered.in_engine, "bad", "✗ all eager"),
        (slower, "part", "◐ slower than plain"),
        (gave_way or covered.in_engine < covered.total, "part", "◐ partly eager"),
        (bool(report.breaks), "good", "✓ compiled, with breaks"),
    ]
    met = ((grade, words) for holds, grade, words in verdicts if holds)
    return next(met, ("good", "✓ compiled"))


def lines(report: Report) -> tuple[tuple[str, str], ...]:
    """What the cell gained, what that cost, and the one step to take, by what ``advise`` found."""
    gain = speed.sentence(report)
    if _ended_early(report):
        # What happened is why nothing is known.
        gain = f"not measured. {_what_happened(report)}"
    steps, _ = _steps(report)
    said = {"Gain": gain, "Cost": speed.cost(report)}
    ours = tuple((name, f"{words[0].upper()}{words[1:]}") for name, words in said.items())
    return *ours, ("Next", _step(steps[0]) if steps else "Nothing.")


def _ended_early(report: Report) -> bool:
    """Whether it was interrupted, or nothing of it ran as it was to."""
    return report.interrupted or status(report)[0] == "bad"


def details(report: Report) -> str:
    """What ran where, how ``auto`` chose, and the line for a program."""
    ran = "" if _ended_early(report) else _what_happened(report)
    plain = plain_loops(report) or race_outcome(report) == "eager"
    line = report.program if ran and not plain else ""
    program = f"In a program: `{line}`." if line else ""
    return " ".join(filter(None, [ran, autotuning.sentence(report), program]))


def html(report: Report) -> Markup:
    """Render the verdict, the three lines and a table of counts; all else folds."""
    grade, word = status(report)
    names, numbers = zip(*counts(report), strict=True)
    table = markup.table("Counts", names, [numbers], class_="dx-counts")
    tag = element("strong", word, class_=f"dx-status dx-{grade}")
    three = [
        element("p", element("strong", name), " ", prose(said), class_="dx-line")
        for name, said in lines(report)
    ]
    lead = element("p", tag, class_="dx-headline")
    return element("div", lead, *three, table, _folded(report))


def text(report: Report) -> str:
    """Render the same for a terminal."""
    names, numbers = zip(*counts(report), strict=True)
    table = plain_text.table(names, [numbers])
    three = [plain_text.paragraph(words, "      ", f"{name}  ") for name, words in lines(report)]
    rest = [plain_text.paragraph(details(report)), _steps_text(report)]
    return "\n\n".join(filter(None, [status(report)[1], "\n".join(three), *rest, table]))


def _folded(report: Report) -> Markup:
    """What happened, the evidence of the first step, and the other steps."""
    made = [element("p", prose(said))] if (said := details(report)) else []
    steps, idle = _steps(report)
    if steps:
        made.append(element("p", quiet_words(_evidence(steps[0]))))
    about = "Details"
    if steps[1:]:
        made.append(_listed(steps[1:]))
        about += f", and {count(len(steps) - 1, 'other step')}"
    if idle:
        without = f"{count(len(idle), 'remark')} on what needs no change"
        made.append(markup.details(without, _listed(idle)))
    return markup.details(about, markup.join(made)) if made else EMPTY


def _listed(advice: Sequence[Advice]) -> Markup:
    items = [
        element("li", prose(_step(each)), " ", quiet_words(_evidence(each))) for each in advice
    ]
    return element("ul", *items)


def _steps(report: Report) -> tuple[list[Advice], list[Advice]]:
    """What there is to do, the most useful first and each step once, and what needs no change."""
    advice = advise(report)
    steps = [each for each in advice if each.weight >= NEGLIGIBLE_WEIGHT]
    first = {each.step: each for each in reversed(steps)}
    steps = [each if first[each.step] is each else replace(each, step="") for each in steps]
    return steps, [each for each in advice if each.weight < NEGLIGIBLE_WEIGHT]


def _steps_text(report: Report) -> str:
    steps, idle = _steps(report)
    made = [plain_text.paragraph(f"Why: {_evidence(each)}", "  ", "  ") for each in steps[:1]]
    made += [
        plain_text.paragraph(f"{_step(each)} {_evidence(each)}", "    ", "  - ")
        for each in steps[1:_MAX_STEPS]
    ]
    if len(steps) > _MAX_STEPS:
        made.append(f"  - {len(steps) - _MAX_STEPS:,} more.")
    if idle:
        made.append(f"  {count(len(idle), 'remark')} on what needs no change.")
    return "\n".join(made)


def _step(advice: Advice) -> str:
    step = clip(" ".join(printable(advice.step).split()), _STEP_CHARS)
    problem = sentence(clip(printable(advice.problem), _STEP_CHARS))
    return f"{problem} {remedy(step, 'Install it with: ')}".strip()


def _evidence(advice: Advice) -> str:
    lead = f"{advice.evidence[0].upper()}{advice.evidence[1:]}" if advice.evidence else ""
    return f"{sentence(lead)} See {advice.part}.".strip()


def _left(report: Report) -> set[str]:
    """The functions and parts of the cell that ran as plain Python, which no graph counts."""
    return {f.subject for f in report.fallbacks if f.stage == "capture" and f.scope == "frame"}


def _plain_words(report: Report) -> str:
    left = _left(report)
    frames = [f for f in report.frames if f.id in left and f.outcome in _PLAIN]
    named = dict.fromkeys(f"`{f.name}`" for f in frames if f.name != "<module>")
    names = [*named, *(["part of the cell"] if len(named) < len(frames) else [])]
    return f"; {listing(names, _MAX_NAMES)} ran as plain Python" if names else ""


def _what_happened(report: Report) -> str:
    plain_words = _plain_words(report)
    covered, backend = coverage(report), report.backend
    graphs, ops = count(covered.graphs, "graph"), count(covered.captured, "operation")
    ended = ""
    if report.interrupted:
        ended = f"Interrupted after {seconds(report.seconds)}; what was recorded is kept. "
    elif report.refused:
        ended = f"{refusal(report)} "
    elif report.error:
        ended = f"The code raised {clip(sentence(report.error), _MAX_CHARS)} "
    if not report.graphs:
        return (ended + ("" if report.refused else _nothing(report))).rstrip()
    if not covered.graphs:
        compiled = count(len(report.graphs), "graph")
        return f"{ended}{compiled} captured, and none was called in this run."
    if backend == EAGER:
        runs = "the eager backend runs them as they are"
        return f"{ended}{graphs} of {ops} captured; {runs}{plain_words}."
    if (outcome := race_outcome(report)) and not covered.in_engine:
        raced = "none was raced" if outcome == "unraced" else "no backend was faster than eager"
        return f"{ended}{graphs} captured; {raced}."
    if not covered.in_engine:
        return f"{ended}Nothing ran in {backend}: {graphs} of {ops} ran eagerly."
    left = covered.total - covered.in_engine
    rest = f"; {left:,} ran eagerly" if left else ""
    where = " where it ran" if any(r.prevented for r in report.recompiles) else ""
    ran = covered_words(covered, "captured" if _left(report) else "")
    return f"{ended}{backend} ran {ran} in {graphs}{where}{rest}{plain_words}."


def refusal(report: Report) -> str:
    """Say what is in the way of the one graph that was asked for, and both ways on."""
    leave = "Or leave --fullgraph out: what can be captured is then."
    if not report.breaks:
        return f"--fullgraph asks for one graph. {clip(sentence(report.error), _MAX_CHARS)} {leave}"
    cause, at = cause_of(report.breaks[-1]), where(report.breaks[-1])
    lead = f"--fullgraph asks for one graph, and {at or 'the code'} ends it because"
    return " ".join(filter(None, [lead, sentence(cause.because), sentence(cause.step), leave]))


def _nothing(report: Report) -> str:
    if report.interrupted:
        return "No graph was captured before."
    if report.error:
        # The error is the reason, and torch's name for it would be a second one.
        return "Nothing was captured."
    if report.mode == "run":
        return "Nothing ran compiled: run only reuses compiled code."
    if plain_loops(report):
        return "Its loop ran as plain Python."
    reasons = [f.reason for f in report.frames if f.reason]
    kept_out = any(f.scope == "run" for f in report.fallbacks)
    why = sentence(clip(reasons[0], _MAX_CHARS)) if reasons and not kept_out else ""
    if why and report.breaks:
        cause, at = cause_of(report.breaks[0]).because, where(report.breaks[0])
        why = sentence(f"At {at} {cause}" if at else f"{cause[0].upper()}{cause[1:]}")
    other = _CELL_MAGIC.search(report.cell.source) if report.cell is not None else None
    if other:
        why = f"%%{other[1]} has the code to run: put %%dynamo below %%{other[1]}."
    elif not why and not kept_out:
        why = "Only tensor operations become graphs; check that the code has some."
    return f"Nothing was captured: all of it ran as ordinary Python. {why}".rstrip()


def counts(report: Report) -> Iterator[tuple[str, str]]:
    """The numbers of a run, by name, as they are shown."""
    covered = coverage(report)
    yield "Graphs", f"{len(report.graphs):,}"
    yield "Operations", f"{sum(g.operation_count for g in report.graphs):,}"
    if report.backend != EAGER and covered.total:
        # Captured operations become others: what an engine is given is ATen's.
        part = " captured" if _left(report) else ""
        renamed = covered.total != covered.captured
        kind = " ATen" if renamed else part
        raced = any(graph.contest is not None for graph in report.graphs)
        where = "engines" if raced else clip(report.backend, 20)
        everything = f"all{part}" if renamed and covered.in_engine == covered.total else ""
        yield f"In {where}", everything or f"{covered.in_engine:,} of {covered.total:,}{kind}"
    yield "Breaks", f"{len(report.breaks):,}"
    guards = len(report.guards) or sum(f.guards for f in report.frames)
    yield "Guards", f"{guards:,}"
    yield "Recompiles", f"{sum(r.count for r in report.recompiles if not r.prevented):,}"
    yield "Fallbacks", f"{len(report.fallbacks):,}"
    yield "Compile", seconds(report.compile_seconds)
    yield "Run", seconds(report.run_seconds)
