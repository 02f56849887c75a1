"""Graph breaks: where capture stopped, why, and what lets it go on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import markup, plain
from dynamo_ext.widgets.markup import EMPTY, Html, code, element, prose, unbroken
from dynamo_ext.wording import count, place, sentence

if TYPE_CHECKING:
    from dynamo_ext.records import GraphBreak, Report

MARK = "✂"


def html(report: Report) -> Html:
    """Each break with its place, reason, explanation and hints; empty when there is none."""
    if not report.breaks:
        return EMPTY
    rows = [
        [
            unbroken(f"{MARK} {place(each.line)}".rstrip()),
            f"{each.count:,}",
            _why(each),
            element("ul", *(element("li", prose(hint)) for hint in each.hints))
            if each.hints
            else "",
        ]
        for each in report.breaks
    ]
    headers = ["Where", "Times", "Why capture stopped", "What helps"]
    return markup.table("Graph breaks", headers, rows, numeric={1}, class_="dx-breaks")


def text(report: Report) -> str:
    """Render the same for a terminal; empty when there is none."""
    parts = []
    for each in report.breaks:
        times = f" ({count(each.count, 'time')})" if each.count > 1 else ""
        reason = " ".join(filter(None, [sentence(each.reason), sentence(each.explanation)]))
        lead = f"{MARK} {place(each.line) or 'graph break'}{times}: "
        parts.append(plain.paragraph(reason, "  ", lead))
        parts += [plain.paragraph(hint, "      ", "    → ") for hint in each.hints]
    return "\n".join(parts)


def _why(each: GraphBreak) -> Html:
    parts: list[object] = [prose(sentence(each.reason))]
    if each.explanation:
        parts += [" ", prose(sentence(each.explanation))]
    if each.line and each.line.code:
        parts += [markup.BREAK, code(each.line.code.strip())]
    called = [
        f"{place(frame)} in {frame.function}"
        for frame in each.stack
        if frame.function and frame != each.line
    ]
    if called:
        parts += [
            markup.BREAK,
            element("span", "Called from ", ", ".join(called), class_="dx-quiet"),
        ]
    if each.registry_id:
        # Only a web address may be followed: a record can come from a file.
        safe = each.link.startswith(("https://", "http://"))
        name = element("a", each.registry_id, href=each.link) if safe else each.registry_id
        parts += [" ", name]
    return markup.join(parts)
