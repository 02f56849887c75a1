"""Everything that fell back to eager, why, and the remedy; and what is not lowered with others."""

import dataclasses
from collections.abc import Iterator

from dynamo_ext import formatting
from dynamo_ext.analysis.breaks import remedy
from dynamo_ext.analysis.kept_operations import clauses
from dynamo_ext.formatting import clip, count, listing, place, printable, sentence
from dynamo_ext.records.report import Fallback, Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, prose, unbroken

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
}


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """One row for all that fell back alike, the backend's absence first; then what is kept."""
    kept = [element("li", prose(sentence(each))) for each in clauses(report)]
    listed = element("ul", *kept) if kept else EMPTY
    if not report.fallbacks:
        return listed
    found = list(_grouped(report))
    rows = [
        [
            markup.join([element("b", each.stage), markup.BREAK, _STAGES[each.stage]]),
            markup.join(filter(None, [of, code(each.operator), unbroken(place(each.line))]), ", "),
            _message(each),
            markup.remedy(remedy(report, each)),
            f"{times:,}",
        ]
        for each, of, times in found[:most]
    ]
    headers = ["Stage", "What ran eagerly", "Exception and message", "Remedy", "Times"]
    table = markup.table("Fallbacks to eager", headers, rows, numeric={4})
    return markup.join([table, markup.left_out(len(found), most, "fallbacks"), listed])


def text(report: Report) -> str:
    """Render the same for a terminal."""
    parts = []
    for each, of, times in _grouped(report):
        what = " ".join(filter(None, [of, each.operator, place(each.line)]))
        often = f" ({count(times, 'time')})" if times > 1 else ""
        lead = f"{what}: {_STAGES[each.stage]}{often}."
        parts.append(plain_text.paragraph(lead, "  ", f"{each.stage}  "))
        message = clip(each.message.removeprefix(f"{each.exception}: "), _SUMMARY_CHARS)
        if said := ": ".join(filter(None, [each.exception, message])):
            parts.append(plain_text.paragraph(said, "    "))
        if helps := remedy(report, each):
            parts.append(plain_text.step(formatting.remedy(helps)))
    parts += [plain_text.paragraph(sentence(each), "  ", "") for each in clauses(report)]
    return "\n".join(parts)


def _grouped(report: Report) -> Iterator[tuple[Fallback, str, int]]:
    """One of those that fell back alike, what all of them are of, and how often they did."""
    groups: dict[Fallback, list[Fallback]] = {}
    for each in sorted(report.fallbacks, key=lambda each: each.stage != "unavailable"):
        groups.setdefault(dataclasses.replace(each, subject="", count=1), []).append(each)
    for alike in groups.values():
        first, times = alike[0], sum(each.count for each in alike)
        scope = f"{first.scope}s" if len(alike) > 1 else first.scope
        yield first, f"{scope} {listing([each.subject for each in alike], _NAMES)}".strip(), times


def _message(each: Fallback) -> Markup:
    """Render the exception and its message; a long one folds under its beginning."""
    message = printable(each.message).strip()
    if each.exception:
        message = message.removeprefix(f"{each.exception}: ")
    name = markup.join([element("b", each.exception), " "]) if each.exception else EMPTY
    if len(message) <= _SUMMARY_CHARS and message.count("\n") < _LINES:
        # Its line breaks are kept where ``white-space`` cannot be set too.
        return markup.join([name, markup.BREAK.join(message.splitlines())])
    return markup.folded(message, _SUMMARY_CHARS // 2, name)
