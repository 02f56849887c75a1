"""Everything that fell back to eager, why, and the remedy."""

from __future__ import annotations

from dynamo_ext import formatting
from dynamo_ext.analysis.breaks import remedy
from dynamo_ext.formatting import clip, count, place, printable
from dynamo_ext.records.report import Fallback, Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, unbroken

TITLE = "Fallbacks"
NOTHING = "No fallback: nothing that was handed to the backend fell back to eager."
_SUMMARY_CHARS = 280
_LINES = 4

_STAGES = {
    "capture": "Dynamo could not capture it",
    "unavailable": "the backend is not available here",
    "unsupported": "the engine does not support it",
    "lower": "the engine could not be built",
    "verify": "the result differed from eager",
    "run": "the engine failed while running",
}


def html(report: Report) -> Markup:
    """One row a fallback, the backend's absence first."""
    if not report.fallbacks:
        return EMPTY
    rows = [
        [
            markup.join([element("b", each.stage), markup.BREAK, _STAGES[each.stage]]),
            markup.join(
                filter(None, [_subject(each), code(each.operator), unbroken(place(each.line))]),
                ", ",
            ),
            _message(each),
            markup.remedy(remedy(report, each)),
            f"{each.count:,}",
        ]
        for each in _ordered(report)
    ]
    headers = ["Stage", "What ran eagerly", "Exception and message", "Remedy", "Times"]
    return markup.table("Fallbacks to eager", headers, rows, numeric={4})


def text(report: Report) -> str:
    """Render the same for a terminal."""
    parts = []
    for each in _ordered(report):
        what = " ".join(filter(None, [_subject(each), each.operator, place(each.line)]))
        times = f" ({count(each.count, 'time')})" if each.count > 1 else ""
        lead = f"{what}: {_STAGES[each.stage]}{times}."
        parts.append(plain_text.paragraph(lead, "  ", f"{each.stage}  "))
        message = clip(each.message.removeprefix(f"{each.exception}: "), _SUMMARY_CHARS)
        if said := ": ".join(filter(None, [each.exception, message])):
            parts.append(plain_text.paragraph(said, "    "))
        if helps := remedy(report, each):
            parts.append(plain_text.step(formatting.remedy(helps)))
    return "\n".join(parts)


def _ordered(report: Report) -> list[Fallback]:
    return sorted(report.fallbacks, key=lambda each: each.stage != "unavailable")


def _subject(each: Fallback) -> str:
    return f"{each.scope} {each.subject}".strip()


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
