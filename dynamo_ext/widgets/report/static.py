"""A whole report as static html and as text: what stays when no kernel and no script runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from dynamo_ext.formatting import count, seconds
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import Markup, element
from dynamo_ext.widgets.html.style import STYLE
from dynamo_ext.widgets.report import bytecode, code, fallbacks, graphs, guards, summary, timing

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.report import Report


def title(report: Report) -> str:
    """Name what ran, as ``optimize · inductor · cell 4``."""
    return " · ".join(filter(None, [report.mode, report.backend, report.title]))


class Part(NamedTuple):
    """A part of a report: its title, its two forms, and what stands beside the title."""

    title: str
    html: Callable[[Report], Markup]
    text: Callable[[Report], str]
    badge: Callable[[Report], str]
    nothing: str = ""


def _guards(report: Report) -> str:
    failed = sum(each.count for each in report.recompiles)
    return f"{len(report.guards):,}" + (f", {failed:,} failed" if failed else "")


PARTS = (
    Part(
        code.TITLE,
        code.html,
        code.text,
        lambda r: count(len(r.breaks), "break") if r.breaks else "",
        code.NOTHING,
    ),
    Part(graphs.TITLE, graphs.html, graphs.text, lambda r: f"{len(r.graphs):,}", graphs.NOTHING),
    Part(guards.TITLE, guards.html, guards.text, _guards, guards.NOTHING),
    Part(
        fallbacks.TITLE,
        fallbacks.html,
        fallbacks.text,
        lambda r: f"{len(r.fallbacks):,}",
        fallbacks.NOTHING,
    ),
    Part(
        bytecode.TITLE,
        bytecode.html,
        bytecode.brief,
        lambda r: count(len(r.bytecode), "function"),
        bytecode.NOTHING,
    ),
    Part(timing.TITLE, timing.html, timing.text, lambda r: seconds(r.seconds)),
)
_FIRST = {code.TITLE, fallbacks.TITLE}
"""Parts that are open in html and come first in a terminal."""


def html(report: Report) -> Markup:
    """Render the report in one element that reads well with its ``<style>`` taken away."""
    folds = [
        markup.details(element("b", _name(part, report)), body, opened=part.title in _FIRST)
        for part in PARTS
        if (body := part.html(report))
    ]
    lead = element("div", title(report), class_="dx-quiet")
    return element("div", STYLE, lead, summary.html(report), *folds, class_="dx dx-static")


def text(report: Report) -> str:
    """Render the report for a terminal, 96 columns wide; the bytecode itself is left out."""
    sections = [
        f"{plain_text.heading(_name(part, report))}\n{body}"
        for part in sorted(PARTS, key=lambda part: part.title not in _FIRST)
        if (body := part.text(report))
    ]
    return "\n\n".join([plain_text.heading(title(report)), summary.text(report), *sections])


def _name(part: Part, report: Report) -> str:
    said = part.badge(report)
    return f"{part.title} ({said})" if said else part.title
