"""Graph breaks: where capture stopped, why, and what lets it go on; torch's words are folded."""

from collections.abc import Iterator, Sequence

from dynamo_ext.analysis.break_location import callers, in_package, origin, where
from dynamo_ext.analysis.breaks import cause_of
from dynamo_ext.analysis.library_breaks import LibraryBreaks, library_breaks
from dynamo_ext.formatting import count, function_name, place, sentence
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, prose

TITLE = "Graph breaks"
NOTHING = "No graph break: each function was captured to its end."
MARK = "✂"


def html(report: Report, most: int | None = markup.MOST) -> Markup:
    """Each break with its place, why it is one and what helps; those of libraries are folded."""
    own, libraries = _divided(report)
    parts = [_table(own, most, helps=True)] if own else []
    for each in libraries:
        step = element("p", prose(sentence(each.step))) if each.step else EMPTY
        table = _table(each.breaks, most, helps=False)
        parts.append(markup.titled(each.package, step, table, words=_lead(each), opened=not parts))
    return markup.join(parts)


def _table(graph_breaks: Sequence[GraphBreak], most: int | None, *, helps: bool) -> Markup:
    rows = [
        [
            markup.unbroken(f"{MARK} {place(origin(each))}".rstrip()),
            f"{each.count:,}",
            _why(each),
            *([prose(sentence(cause_of(each).step))] if helps else []),
        ]
        for each in graph_breaks[:most]
    ]
    headers = ["Where", "Times", "Why capture stopped", *(["What helps"] if helps else [])]
    table = markup.table(TITLE, headers, rows, numeric={1}, class_="dx-breaks")
    return markup.join([table, markup.left_out(len(graph_breaks), most, "break")])


def text(report: Report) -> str:
    """Render the same for a terminal, without torch's own words where there are ours."""
    own, libraries = _divided(report)
    parts = [line for each in own for line in _lines(each, cause_of(each).step)]
    for group in libraries:
        parts.append(plain_text.paragraph(sentence(f"{group.package}: {_lead(group)}"), "  "))
        parts += [line for each in group.breaks for line in _lines(each, "")]
        parts += [plain_text.step(sentence(group.step))] if group.step else []
    return "\n".join(parts)


def _divided(report: Report) -> tuple[list[GraphBreak], tuple[LibraryBreaks, ...]]:
    libraries = library_breaks(report)
    theirs = {id(each) for group in libraries for each in group.breaks}
    return [each for each in report.breaks if id(each) not in theirs], libraries


def _lead(group: LibraryBreaks) -> str:
    lines = group.called_at()
    via = f", called at {lines}" if lines else ""
    return f"{count(len(group.breaks), 'place')} of its code{via}"


def _lines(graph_break: GraphBreak, step: str) -> Iterator[str]:
    times = f" ({count(graph_break.count, 'time')})" if graph_break.count > 1 else ""
    at = where(graph_break).rstrip(",") or "graph break"
    torchs = "" if cause_of(graph_break).known else sentence(graph_break.explanation)
    reason = f"{because(graph_break)} {torchs}".rstrip()
    yield plain_text.paragraph(reason, "  ", f"{MARK} {at}{times}: ")
    line = origin(graph_break)
    if line and line.code and not line.in_cell:
        yield f"      {line.code.strip()}"
    if step:
        yield plain_text.step(sentence(step))


def because(graph_break: GraphBreak) -> str:
    """Say why there is a break, in one sentence."""
    said = cause_of(graph_break).because
    # A name keeps its small letter.
    return sentence(said if said.startswith("torch.") else f"{said[:1].upper()}{said[1:]}")


def because_of_all(graph_breaks: Sequence[GraphBreak]) -> str:
    """Say why there are breaks at one line; of many in one package, no more than their number."""
    packages = {in_package(each) for each in graph_breaks}
    reasons = list(dict.fromkeys(map(because, graph_breaks)))
    if len(reasons) > 1 and len(packages) == 1 and (name := packages.pop()):
        return f"The code of {name} that it calls splits the graph at {len(graph_breaks):,} places."
    rest = f" {len(reasons) - 1:,} more below." if reasons[1:] else ""
    return f"{reasons[0]}{rest}"


def _why(graph_break: GraphBreak) -> Markup:
    parts: list[object] = [prose(because(graph_break))]
    line = origin(graph_break)
    if line and line.code:
        parts += [markup.BREAK, code(line.code.strip())]
    called = ", ".join(
        place(at) if at.in_cell else f"{place(at)} in {function_name(at.function)}"
        for at in callers(graph_break)
    )
    if called:
        parts += [markup.BREAK, markup.quiet_words("Called from ", called)]
    return markup.join([*parts, _torchs_words(graph_break)])


def _torchs_words(graph_break: GraphBreak) -> Markup:
    """What torch says of it, folded, with its page."""
    words = f"{sentence(graph_break.reason)} {sentence(graph_break.explanation)}".strip()
    parts: list[object] = [prose(words)]
    if graph_break.hints:
        parts.append(element("ul", *(element("li", prose(hint)) for hint in graph_break.hints)))
    if name := graph_break.registry_id:
        # Only a web address may be followed: a record can come from a file.
        safe = graph_break.link.startswith(("https://", "http://"))
        parts.append(element("a", name, href=graph_break.link) if safe else name)
    return markup.details("In torch's words", *parts)
