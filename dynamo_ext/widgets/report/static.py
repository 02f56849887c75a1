"""A whole report, or a part, as static html, text and Markdown: what stays without a kernel."""

from collections.abc import Sequence
from typing import Protocol

from dynamo_ext.formatting import count, listing, seconds
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.blocks import Shown
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import STYLE, Markup, element, quiet
from dynamo_ext.widgets.report import (
    breaks,
    bytecode,
    code,
    fallbacks,
    graphs,
    guards,
    summary,
    timing,
)


class Part(Protocol):
    """What the module of a part has; its forms are empty where there is nothing to show."""

    TITLE: str
    NOTHING: str

    def html(self, report: Report, most: int | None = ..., /) -> Markup:
        """The part in html, of each list the first ``most`` with a count of the others."""

    def text(self, report: Report, /) -> str:
        """The same for a terminal."""


PARTS: tuple[Part, ...] = (code, graphs, guards, fallbacks, bytecode, timing)
NAMED: dict[str, Part] = {
    "graphs": graphs,
    "guards": guards,
    "breaks": breaks,
    "fallbacks": fallbacks,
}
"""Parts that can be shown by themselves."""

_ROOM = 130_000  # bytes of all parts; the style sheet and the summary take the rest of 150 kB
_CUT = 'Long lists are cut here: dynamo_ext.last_report().save("report.html") writes all of it.'

_SCREEN = 60
"""Lines of a section in Markdown, and of a report where a cell ends."""

_FEWEST = 8
"""Lines of a section that is cut for that."""

_FIRST = {code.TITLE, fallbacks.TITLE}
"""Parts that are open in html and come first in a terminal."""


def title(report: Report) -> str:
    """Name what ran, as ``optimize · inductor · cell 4``."""
    return " · ".join(filter(None, [report.mode, report.backend, report.title]))


def html(report: Report) -> Markup:
    """Render the report in one element that reads well with its ``<style>`` taken away.

    A notebook keeps it in its file: long lists are cut to keep it under about 150 kB.
    """
    lead = element("div", title(report), class_="dx-quiet")
    body = _body(report, _fitting(report, PARTS))
    return element("div", STYLE, lead, *body, class_="dx dx-static")


def _fitting(report: Report, parts: Sequence[Part]) -> list[Markup]:
    """Render parts within the room for them all: the largest that can be cut is, until they are."""
    most = [markup.MOST for _ in parts]
    made = [part.html(report, markup.MOST) for part in parts]
    sizes = [len(each.encode()) for each in made]
    while sum(sizes) > _ROOM and max(most) > 1:
        index = max(range(len(made)), key=lambda index: (most[index] > 1, sizes[index]))
        most[index] //= 2
        made[index] = parts[index].html(report, most[index])
        sizes[index] = len(made[index].encode())
    if any(each < markup.MOST for each in most):
        made[-1] += quiet(_CUT)
    return made


def page(report: Report) -> str:
    """Make a page of its own that needs no network."""
    return markup.page(title(report), _body(report, [part.html(report, None) for part in PARTS]))


def _body(report: Report, bodies: Sequence[Markup]) -> list[Markup]:
    folds = [
        markup.titled(_name(part, report), body, opened=part.TITLE in _FIRST)
        for part, body in zip(PARTS, bodies, strict=True)
        if body
    ]
    return [summary.html(report), *folds]


def text(report: Report) -> str:
    """Render the report for a terminal, 96 columns wide; the bytecode itself is left out."""
    return "\n\n".join([_head(report), *(_section(each, report) for each in _in_order(report))])


def brief(report: Report) -> str:
    """Render what fits a screen: the summary, the code, what fell back; all else is named."""
    whole = text(report)
    if len(whole.splitlines()) <= _SCREEN:
        return whole
    head, parts = _head(report), _in_order(report)
    first = [part for part in parts if part.TITLE in _FIRST]
    room = (_SCREEN - len(head.splitlines())) // max(len(first), 1) - 3
    shown = [_cut(_section(part, report), max(room, _FEWEST)) for part in first]
    left = listing([_name(part, report) for part in parts if part not in first])
    more = plain_text.paragraph(f"{left}: %dynamo report shows all of it.")
    return "\n\n".join([head, *shown, more])


def _head(report: Report) -> str:
    return f"{plain_text.heading(title(report))}\n\n{summary.text(report)}"


def _in_order(report: Report) -> list[Part]:
    """The parts that a terminal shows."""
    said = (part for part in PARTS if part.text(report))
    return sorted(said, key=lambda part: part.TITLE not in _FIRST)


def _section(part: Part, report: Report) -> str:
    return plain_text.section(_name(part, report), part.text(report))


def _cut(body: str, most: int) -> str:
    lines = body.splitlines()
    if len(lines) <= most:
        return body
    return "\n".join([*lines[:most], f"… {count(len(lines) - most, 'line')} more"])


def markdown(report: Report) -> str:
    """Render code, breaks, failed guards and fallbacks, short enough for an issue."""
    versions = ", ".join(f"{name} {version}" for name, version in report.versions)
    sections = {
        code.TITLE: code.text(report),
        guards.FAILED: guards.failures_text(report),
        fallbacks.TITLE: fallbacks.text(report),
    }
    shown = [f"#### {name}\n\n{_fenced(body)}" for name, body in sections.items() if body]
    lead = f"### {title(report)}\n\n{_fenced(summary.text(report))}"
    return "\n\n".join([lead, *shown, f"Versions: {versions}."]) + "\n"


def _fenced(body: str) -> str:
    """Text as it is, whatever fences it has itself."""
    fence = "```"
    while fence in body:
        fence += "`"
    return "\n".join([f"{fence}text", _cut(body, _SCREEN), fence])


class ReportPart(Shown):
    """One part of a report by itself; ``name`` is a key of ``NAMED``."""

    def __init__(self, report: Report, name: str) -> None:
        self.report = report
        self._part = NAMED[name]

    def html(self) -> Markup:
        """Render it; a sentence where there is nothing."""
        body = _fitting(self.report, [self._part])[0] or quiet(self._part.NOTHING)
        lead = element("div", self.report.title, class_="dx-quiet")
        return element("div", STYLE, lead, body, class_="dx")

    def text(self) -> str:
        """Render the same for a terminal."""
        return f"{self.report.title}\n\n{self._part.text(self.report) or self._part.NOTHING}"


def _name(part: Part, report: Report) -> str:
    """The title of a part with what there is of it."""
    failed = sum(each.count for each in report.recompiles)
    said = {
        code.TITLE: count(len(report.breaks), "break") if report.breaks else "",
        graphs.TITLE: f"{len(report.graphs):,}",
        guards.TITLE: f"{len(report.guards):,}" + (f", {failed:,} failed" if failed else ""),
        fallbacks.TITLE: f"{len(report.fallbacks):,}",
        bytecode.TITLE: count(len(report.bytecode), "function"),
        timing.TITLE: seconds(report.seconds),
    }[part.TITLE]
    return f"{part.TITLE} ({said})" if said else part.TITLE
