"""Graph breaks: where capture stopped, why, and what lets it go on; torch's words are folded."""

from dynamo_ext.analysis.break_location import callers, origin, where
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.formatting import count, function_name, place, sentence
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import (
    EMPTY,
    Markup,
    code,
    element,
    prose,
    quiet_words,
    unbroken,
)

TITLE = "Graph breaks"
NOTHING = "No graph break: each function was captured to its end."
MARK = "✂"


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """Each break with its place, why it is one and what helps; empty when there is none."""
    if not report.breaks:
        return EMPTY
    rows = [
        [
            unbroken(f"{MARK} {place(origin(each))}".rstrip()),
            f"{each.count:,}",
            _why(each),
            prose(sentence(cause_of(each).step)),
        ]
        for each in report.breaks[:most]
    ]
    headers = ["Where", "Times", "Why capture stopped", "What helps"]
    table = markup.table(TITLE, headers, rows, numeric={1}, class_="dx-breaks")
    return markup.join([table, markup.left_out(len(report.breaks), most, "breaks")])


def text(report: Report) -> str:
    """Render the same for a terminal, without torch's own words where there are ours."""
    parts = []
    for each in report.breaks:
        times = f" ({count(each.count, 'time')})" if each.count > 1 else ""
        at = where(each).rstrip(",") or "graph break"
        torchs = "" if cause_of(each).known else sentence(each.explanation)
        reason = f"{because(each)} {torchs}".rstrip()
        parts.append(plain_text.paragraph(reason, "  ", f"{MARK} {at}{times}: "))
        line = origin(each)
        if line and line.code and not line.in_cell:
            parts.append(f"      {line.code.strip()}")
        if step := sentence(cause_of(each).step):
            parts.append(plain_text.step(step))
    return "\n".join(parts)


def because(each: GraphBreak) -> str:
    """Say why there is a break, in one sentence."""
    said = cause_of(each).because
    # A name keeps its small letter.
    return sentence(said if said.startswith("torch.") else f"{said[:1].upper()}{said[1:]}")


def _why(each: GraphBreak) -> Markup:
    parts: list[object] = [prose(because(each))]
    line = origin(each)
    if line and line.code:
        parts += [markup.BREAK, code(line.code.strip())]
    called = ", ".join(
        place(at) if at.in_cell else f"{place(at)} in {function_name(at.function)}"
        for at in callers(each)
    )
    if called:
        parts += [markup.BREAK, quiet_words("Called from ", called)]
    return markup.join([*parts, _torchs_words(each)])


def _torchs_words(each: GraphBreak) -> Markup:
    """What torch says of it, folded, with its page."""
    words = " ".join(filter(None, [sentence(each.reason), sentence(each.explanation)]))
    parts: list[object] = [prose(words)]
    if each.hints:
        parts.append(element("ul", *(element("li", prose(hint)) for hint in each.hints)))
    if each.registry_id:
        # Only a web address may be followed: a record can come from a file.
        safe = each.link.startswith(("https://", "http://"))
        parts.append(element("a", each.registry_id, href=each.link) if safe else each.registry_id)
    return markup.details("In torch's words", *parts)
