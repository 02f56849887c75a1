"""Everything that fell back to eager, why, and the remedy; and what is not lowered with others."""

from collections.abc import Iterator
from dataclasses import dataclass

from dynamo_ext import formatting
from dynamo_ext.analysis.break_location import in_package
from dynamo_ext.analysis.breaks import break_of, remedy
from dynamo_ext.analysis.kept_operations import clauses
from dynamo_ext.analysis.library_breaks import library_breaks
from dynamo_ext.formatting import clip, count, function_name, listing, place, printable, sentence
from dynamo_ext.records.report import Fallback, Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, prose

TITLE = "Fallbacks"
NOTHING = "No fallback: nothing that was handed to the backend fell back to eager."
_SUMMARY_CHARS = 280
_LINES = 4
_NAMES = 8

_STAGES = {
    "capture": "Dynamo could not capture it",
    "unavailable": "the backend is not available here",
    "unsupported": "the engine does not support it",
    "lower": "the engine could not be built",
    "verify": "the result differed from eager",
    "run": "the engine failed while running",
    "random": "it runs in the engine, with random numbers that are not eager's",
}


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """One row for all with one cause, the backend's absence first; then what is kept."""
    kept = [element("li", prose(sentence(each))) for each in clauses(report)]
    listed = element("ul", *kept) if kept else EMPTY
    if not report.fallbacks:
        return listed
    found = list(_grouped(report))
    rows = [
        [
            markup.join([element("b", group.stage), markup.BREAK, group.happened]),
            markup.join(filter(None, [group.of, code(group.operator), group.lines, often]), ", "),
            markup.join([markup.join(map(_message, group.distinct[:most]), markup.BREAK), left]),
            markup.remedy(group.remedy),
        ]
        for group in found[:most]
        for often in [count(group.times, "time") if group.times > 1 else ""]
        for left in [markup.left_out(len(group.distinct), most, "message")]
    ]
    headers = ["Stage", "What ran eagerly", "Why", "Remedy"]
    table = markup.table("Fallbacks to eager", headers, rows, class_="dx-breaks")
    return markup.join([table, markup.left_out(len(found), most, "fallback"), listed])


def text(report: Report) -> str:
    """Render the same for a terminal."""
    parts = []
    for group in _grouped(report):
        what = " ".join(filter(None, [group.of, group.operator, group.lines]))
        often = f" ({count(group.times, 'time')})" if group.times > 1 else ""
        lead = f"{what}: {group.happened}{often}."
        parts.append(plain_text.paragraph(lead, "  ", f"{group.stage}  "))
        for each in group.distinct[:_NAMES]:
            message = clip(each.message.removeprefix(f"{each.exception}: "), _SUMMARY_CHARS)
            if said := ": ".join(filter(None, [each.exception, message])):
                parts.append(plain_text.paragraph(said, "    "))
        if (more := len(group.distinct) - _NAMES) > 0:
            parts.append(f"    {count(more, 'more message')}.")
        if group.remedy:
            parts.append(plain_text.step(formatting.remedy(group.remedy)))
    parts += [plain_text.paragraph(sentence(each), "  ", "") for each in clauses(report)]
    return "\n".join(parts)


@dataclass(frozen=True)
class _Alike:
    """Fallbacks with one cause: what ``happened``, ``of`` what, in which ``lines``, how often.

    ``distinct`` has one of them for each exception and message.
    """

    stage: str
    happened: str
    operator: str
    remedy: str
    of: str
    lines: str
    distinct: tuple[Fallback, ...]
    times: int


def _grouped(report: Report) -> Iterator[_Alike]:
    """Those with one remedy together: all that one package keeps from capture, for one."""
    groups: dict[tuple[str, ...], list[Fallback]] = {}
    # What helps from outside, where a package's code is to blame.
    steps = {found.package: found.step for found in library_breaks(report)}
    for each in sorted(report.fallbacks, key=lambda each: each.stage != "unavailable"):
        cut = break_of(report, each)
        package = in_package(cut) if cut is not None else ""
        what = () if package else (each.exception, each.message)
        step = steps.get(package) or remedy(report, each)
        key = (each.stage, each.scope, package, each.operator, step, *what)
        groups.setdefault(key, []).append(each)
    for (stage, scope, _, operator, step, *_), group in groups.items():
        names = listing([_name(report, each) for each in group], _NAMES)
        places = dict.fromkeys(place(each.line) for each in group)
        distinct = {(each.exception, each.message): each for each in reversed(group)}
        by_choice = stage == "capture" and all(each.harmless for each in group)
        yield _Alike(
            stage,
            "it runs in Python" if by_choice else _STAGES[stage],
            operator,
            step,
            f"{scope}{'s' if len(group) > 1 else ''} {names}".strip(),
            listing([*filter(None, places)], _NAMES),
            tuple(reversed(distinct.values())),
            sum(each.count for each in group),
        )


def _name(report: Report, fallback: Fallback) -> str:
    """What fell back, a function by its name: its number alone says nothing."""
    frames = (f for f in report.frames if fallback.scope == "frame" and f.id == fallback.subject)
    return next((f"{function_name(f.name)} ({f.id})" for f in frames), fallback.subject)


def _message(fallback: Fallback) -> Markup:
    """Render the exception and its message; a long one folds under its beginning."""
    message = printable(fallback.message).strip()
    if fallback.exception:
        message = message.removeprefix(f"{fallback.exception}: ")
    name = markup.join([element("b", fallback.exception), " "]) if fallback.exception else EMPTY
    if len(message) <= _SUMMARY_CHARS and message.count("\n") < _LINES:
        # Its line breaks are kept where ``white-space`` cannot be set too.
        return markup.join([name, markup.BREAK.join(message.splitlines())])
    return markup.folded(message, _SUMMARY_CHARS // 2, name)
