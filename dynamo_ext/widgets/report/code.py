"""The user's lines, each with the graph it ran in, and a mark at each break.

A line has a label where the record has an operation of it; others were evaluated in tracing.
"""

import ast
import contextlib
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from dynamo_ext.analysis.break_location import origin
from dynamo_ext.analysis.placement import EAGER, place_graph
from dynamo_ext.formatting import clip, count, function_name, percent, place, printable
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, Markup, code, element, hue, prose
from dynamo_ext.widgets.report import breaks

TITLE = "Code"
NOTHING = "No source was recorded for this run."
_NOTABLE = 0.005  # of the operations' time in eager
_FAILED = "✗"
_GIVEN_UP = {"skipped", "failed", "eager"}
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_MIN_CHARS, _MAX_CHARS = 20, 80  # letters of a line in a terminal
_FEW = 8  # lines of other files that need no fold
_KEYS = 12  # graphs that the key names
_LARGE = 0.05  # of the graphs' time: the key names it wherever its lines are
_OUTSIDE = 40  # lines of other files worth listing; a deep model has hundreds


@dataclass
class _Mark:
    """A line's graphs, whether some of it ran eagerly, and its operations' seconds in eager."""

    line: SourceLine | None = None
    graphs: list[str] = field(default_factory=list)
    eager: bool = False
    broken: list[GraphBreak] = field(default_factory=list)
    failed: bool = False
    seconds: float = 0.0
    share: str = ""

    @property
    def label(self) -> str:
        eager, broken = EAGER * self.eager, breaks.MARK * bool(self.broken)
        words = [*self.graphs, eager, self.share, broken, _FAILED * self.failed]
        return " ".join(filter(None, words))


def html(report: Report, most: int | None = _OUTSIDE) -> Markup:
    """Render the cell with its gutter, the lines outside it, and the table of breaks."""
    marks = _marks(report)
    tints = {
        graph.id: "dx-eager" if place_graph(report, graph).label == EAGER else hue(index)
        for index, graph in enumerate(report.graphs)
    }
    parts: list[object] = []
    if report.cell:
        parts += [_key(report, marks, tints), _grid(report.cell, "", marks, tints, None)]
    parts += [
        markup.titled(each.name, _grid(each, each.file, marks, tints, most), opened=True)
        for each in report.functions[:most]
    ]
    parts.append(markup.left_out(len(report.functions), most, "function"))
    if outside := _outside(report, marks):
        cells = [
            [place(x), label, code(x.code.strip()), function_name(x.function)]
            for x, label in outside[:most]
        ]
        headers = ["Line", "Ran in", "Code", "Function"]
        table = markup.table("Lines outside the cell", headers, cells)
        rest = markup.left_out(len(outside), most, "line")
        name = "Lines elsewhere" if report.cell or report.functions else "Lines"
        few = len(outside) <= _FEW and not report.functions
        words = count(len(outside), "line")
        parts.append(markup.titled(name, table, rest, words=words, opened=few))
    if found := breaks.html(report, most):
        parts += [element("h4", breaks.TITLE), found]
    return element("div", *parts) if any(parts) else EMPTY


def text(report: Report) -> str:
    """Render the same for a terminal."""
    marks = _marks(report)
    parts = []
    if report.cell:
        rows = [(n, line, marks.get(("", n), _Mark())) for n, line in _numbered(report.cell)]
        gutter = max((len(mark.label) for _, _, mark in rows), default=0)
        digits = max((len(str(n)) for n, _, _ in rows), default=0)
        room = max(min(plain_text.line_width() - digits - gutter - 4, _MAX_CHARS), _MIN_CHARS)
        key = [words for class_, words in _key_words(report, marks) if class_ != "dx-eager"]
        key += filter(None, [_shares(report).rstrip(".")])
        parts += [
            plain_text.paragraph(" · ".join(key)),
            "\n".join(
                f"{n:>{digits}} {mark.label:<{gutter}} │ {clip(printable(line), room)}".rstrip()
                for n, line, mark in rows
            ),
        ]
    elif outside := _outside(report, marks, sources=False):
        cells = [[place(x), label, x.code.strip()] for x, label in outside[:_OUTSIDE]]
        parts.append(plain_text.table(["Line", "Ran in", "Code"], cells))
    parts.append(breaks.text(report))
    return "\n\n".join(filter(None, parts))


_Marks = Mapping[tuple[str, int], _Mark]


def _numbered(cell: CodeBlock) -> list[tuple[int, str]]:
    lines = cell.source.rstrip("\n").expandtabs(4).split("\n")
    return list(enumerate(lines, cell.first_line))


def _grid(
    block: CodeBlock, file: str, marks: _Marks, tints: dict[str, str], most: int | None
) -> Markup:
    """Source with its gutter, the first ``most`` lines of it."""
    lines = _numbered(block)
    rows = [_row(n, line, marks.get((file, n), _Mark()), tints) for n, line in lines[:most]]
    label = "Code, by graph" if not file else f"{block.name}, by graph"
    grid = element("table", element("tbody", *rows), class_="dx-code", aria_label=label)
    rest = markup.left_out(len(lines), most, "line")
    return markup.join([markup.region(grid, f"{label}: scrolls"), rest])


def _key_of(line: SourceLine) -> tuple[str, int]:
    return ("" if line.in_cell else line.file), line.line


def _marks(report: Report) -> dict[tuple[str, int], _Mark]:
    """Gather what is known of each line, by file (empty for the cell) and number."""
    marks: dict[tuple[str, int], _Mark] = {}
    whole = 0.0
    for graph in report.graphs:
        placement = place_graph(report, graph)
        for op in graph.operations:
            if op.line is None or not op.computes:
                continue
            whole += op.seconds * graph.calls
            for line in filter(None, (op.line, op.called)):
                mark = marks.setdefault(_key_of(line), _Mark(line))
                if graph.id not in mark.graphs:
                    mark.graphs.append(graph.id)
                mark.eager = mark.eager or EAGER in placement.engine_of(op).split(" + ")
                mark.seconds += op.seconds * graph.calls
    _share_out(marks.values(), whole)
    for each in report.breaks:
        for at in filter(None, (each.line, origin(each))):
            mark = marks.setdefault(_key_of(at), _Mark(at))
            mark.eager = not report.refused
            mark.broken += [each] if each not in mark.broken else []
    for number in _plain(report):
        marks.setdefault(("", number), _Mark(eager=True))
    if report.stopped_at and not report.refused:
        marks.setdefault(("", report.stopped_at), _Mark()).failed = True
    return marks


def _share_out(marks: Iterable[_Mark], whole: float) -> None:
    """Say of each line what share of the time its operations have, where that is worth a word."""
    for mark in marks:
        if whole and mark.seconds >= _NOTABLE * whole:
            mark.share = percent(mark.seconds / whole)


def _plain(report: Report) -> Iterator[int]:
    """The lines of the cell that ran as plain Python because Dynamo gave them up."""
    if report.cell is None or report.refused:
        return
    starts: dict[int, bool] = {}
    for frame in report.frames:
        if frame.is_cell:
            starts[frame.line] = starts.get(frame.line, True) and frame.outcome in _GIVEN_UP
    # Those with code, up to the end of the statement that raised.
    at, top = report.stopped_at, list(_top_level(report.cell))
    reached = next((last for _, first, last in top if at and first <= at <= last), math.inf)
    numbered = _numbered(report.cell)
    lines = [n for n, line in numbered if n <= reached and re.match(r"\s*[^\s#]", line)]
    # The cell's own statements may never have been compiled, whatever they call has been.
    if not report.graphs or (starts and all(starts.values())):
        yield from lines
        return
    # A statement is as what began last before it: Dynamo gave the cell up there, or took it up.
    for node, first, last in top:
        before = max((at for at in starts if at <= first), default=None)
        if before is not None and starts[before] and not isinstance(node, _DEFINITIONS):
            yield from (n for n in lines if first <= n <= last)


def _top_level(cell: CodeBlock) -> Iterator[tuple[ast.stmt, int, int]]:
    """The cell's own statements with their first and last line; none of what Python rejects."""
    with contextlib.suppress(SyntaxError, ValueError):
        for node in ast.parse(cell.source).body:
            first, last = node.lineno, node.end_lineno or node.lineno
            yield node, first + cell.first_line - 1, last + cell.first_line - 1


def _outside(
    report: Report, marks: _Marks, *, sources: bool = True
) -> list[tuple[SourceLine, str]]:
    """List the lines of other files that gave operations or breaks, by graph, with their labels.

    With ``sources``, lines of functions whose source is shown are left out.
    """
    shown = {(b.file, n) for b in report.functions if sources for n, _ in _numbered(b)}
    found = [marks[key] for key in sorted(marks) if key not in shown]
    first = {graph.id: index for index, graph in enumerate(report.graphs)}
    found.sort(key=lambda mark: min(map(first.__getitem__, mark.graphs), default=-1))
    return [(mark.line, mark.label) for mark in found if mark.line and not mark.line.in_cell]


def _row(number: int, line: str, mark: _Mark, tints: dict[str, str]) -> Markup:
    """One line; a break adds its reason under it."""
    tint = "dx-eager" if mark.eager else tints[mark.graphs[0]] if mark.graphs else None
    body = line.lstrip(" ")
    # No-break spaces: an indent must survive where white-space cannot be set.
    indent = "\N{NO-BREAK SPACE}" * (len(line) - len(body))
    left = "text-align:left"
    row = element(
        "tr",
        element("td", number, style="text-align:right"),
        element("td", mark.label, style=left),
        element("td", element("code", indent, body) if body else "", style=left),
        class_=tint,
    )
    if not mark.broken:
        return row
    reason = f"{indent}{breaks.MARK} {clip(breaks.because_of_all(mark.broken), 160)}"
    note = element("td", element("em", prose(reason)), style=left, class_="dx-note")
    return markup.join([row, element("tr", element("td"), element("td"), note, class_="dx-eager")])


def _key(report: Report, marks: _Marks, tints: dict[str, str]) -> Markup:
    parts = [
        element("span", words, class_=f"dx-key {tints.get(graph, graph)}".rstrip())
        for graph, words in _key_words(report, marks)
    ]
    # The tints tell the entries apart; where they are gone, the dots do.
    key = element("p", markup.join(parts, element("span", " · ", class_="dx-gap")))
    return markup.join([key, markup.quiet(_shares(report))])


def _key_words(report: Report, marks: _Marks) -> Iterator[tuple[str, str]]:
    """What each label means, with the graph or class that it is tinted by."""
    sources = [("", report.cell), *((each.file, each) for each in report.functions)]
    keys = [(file, n) for file, block in sources if block for n, _ in _numbered(block)]
    seen = {graph for key in keys if key in marks for graph in marks[key].graphs}
    total = sum(graph.run_seconds for graph in report.graphs)
    worth = [g for g in report.graphs if g.id in seen or g.run_seconds >= _LARGE * total]
    largest = sorted(worth, key=lambda graph: -graph.run_seconds)[:_KEYS]
    named = [graph for graph in worth if graph in largest]
    several = len(report.graphs) > 1 and total
    for graph in named:
        share = f", {percent(graph.run_seconds / total)} of the graphs' time" if several else ""
        yield graph.id, f"{graph.id}: {place_graph(report, graph).label}{share}"
    if more := len(report.graphs) - len(named):
        yield "", f"and {count(more, 'more graph')}" if named else count(more, "graph")
    if (report.breaks or not report.graphs) and not report.refused:
        yield "dx-eager", "eager: ordinary Python"
    if report.breaks:
        yield "", f"{breaks.MARK} graph break"
    if report.stopped_at and not report.refused:
        yield "", f"{_FAILED} raised the error"


def _shares(report: Report) -> str:
    timed = any(graph.operation_seconds for graph in report.graphs)
    return "Percentages are shares of the operations' time in eager." if timed else ""
