"""A whole report, or a part, as static html, text and Markdown: what stays without a kernel."""

from collections.abc import Sequence
from typing import Protocol

from dynamo_ext.formatting import count, listing, seconds
from dynamo_ext.records.report import Report
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.blocks import Shown
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import STYLE, Markup, element, quiet
from dynamo_ext.widgets.report import breaks, code, fallbacks, graphs, guards, summary, timing


class Part(Protocol):
    """What the module of a part has; its forms are empty where there is nothing to show."""

    TITLE: str
    NOTHING: str

    def html(self, report: Report, most: int | None = ..., /) -> Markup:
        """The part in html, of each list the first ``most`` with a count of the others."""

    def text(self, report: Report, /) -> str:
        """The same for a terminal."""


PARTS: tuple[Part, ...] = (code, graphs, guards, fallbacks, timing)
NAMED: dict[str, Part] = {
    "graphs": graphs,
    "guards": guards,
    "breaks": breaks,
    "fallbacks": fallbacks,
}
"""Parts that can be shown by themselves."""

_ROOM = 149_000 - len(STYLE.encode())
"""Bytes of a report beside the style sheet in a notebook's file."""

_CUT = 'Long lists are cut here: dynamo_ext.last_report().save("report.html") writes all of it.'

_ROWS = 40
"""Rows of each list, at most."""

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
    head = summary.html(report)
    bodies = _fitting(report, PARTS, _ROOM - len(head.encode()))
    return element("div", STYLE, lead, head, *_folds(report, bodies), class_="dx dx-static")


def _fitting(report: Report, parts: Sequence[Part], room: int) -> list[Markup]:
    """Render parts within ``room`` bytes: fewer rows of the longest until they fit."""
    most = [_ROWS for _ in parts]
    made = [part.html(report, _ROWS) for part in parts]
    while sum(sizes := [len(each.encode()) for each in made]) > room and max(most) > 1:
        longest = max(range(len(made)), key=lambda index: (most[index] > 1, sizes[index]))
        most[longest] //= 2
        made[longest] = parts[longest].html(report, most[longest])
    if any(markup.CUT in each for each in made):
        made[-1] += quiet(_CUT)
    return made


def page(report: Report) -> str:
    """Make a page of its own that needs no network."""
    folds = _folds(report, [part.html(report, None) for part in PARTS])
    return markup.page(title(report), [summary.html(report), *folds])


def _folds(report: Report, bodies: Sequence[Markup]) -> list[Markup]:
    return [
        markup.titled(_name(part, report), body, opened=part.TITLE in _FIRST)
        for part, body in zip(PARTS, bodies, strict=True)
        if body
    ]


def text(report: Report) -> str:
    """Render the report for a terminal, 96 columns wide."""
    return "\n\n".join([_head(report), *_sections(report).values()])


def brief(report: Report) -> str:
    """Render what fits a screen: the summary, the code, what fell back; all else is named."""
    head, sections = _head(report), _sections(report)
    whole = "\n\n".join([head, *sections.values()])
    if len(whole.splitlines()) <= _SCREEN:
        return whole
    first = [body for part, body in sections.items() if part.TITLE in _FIRST]
    room = (_SCREEN - len(head.splitlines())) // max(len(first), 1) - 3
    shown = [_cut(body, max(room, _FEWEST)) for body in first]
    left = listing([_name(part, report) for part in sections if part.TITLE not in _FIRST])
    more = plain_text.paragraph(f"{left}: %dynamo report shows all of it.")
    return "\n\n".join([head, *shown, more])


def _head(report: Report) -> str:
    return f"{plain_text.heading(title(report))}\n\n{summary.text(report)}"


def _sections(report: Report) -> dict[Part, str]:
    """The parts that have something to show in a terminal, in its order, with their text."""
    ordered = sorted(PARTS, key=lambda part: part.TITLE not in _FIRST)
    texts = {part: part.text(report) for part in ordered}
    return {
        part: plain_text.section(_name(part, report), body) for part, body in texts.items() if body
    }


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
        body = _fitting(self.report, [self._part], _ROOM)[0] or quiet(self._part.NOTHING)
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
        timing.TITLE: seconds(report.seconds),
    }[part.TITLE]
    return f"{part.TITLE} ({said})" if said else part.TITLE
