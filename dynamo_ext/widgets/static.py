"""A whole report as static html and as text: what stays when no kernel and no script runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import (
    bytecode,
    code,
    fallbacks,
    graph,
    guards,
    markup,
    plain,
    summary,
    timing,
)
from dynamo_ext.widgets.markup import Html, element
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import count, seconds

if TYPE_CHECKING:
    from dynamo_ext.records import Report


def title(report: Report) -> str:
    """Name what ran, as ``optimize · inductor · cell 4``."""
    return " · ".join(filter(None, [report.mode, report.backend, report.title]))


def counts(report: Report) -> dict[str, str]:
    """Gather what each part says on its fold or tab, beside its title."""
    total = sum(each.count for each in report.recompiles)
    failed = f", {total:,} failed" if total else ""
    return {
        code.TITLE: count(len(report.breaks), "break") if report.breaks else "",
        graph.TITLE: f"{len(report.graphs):,}",
        guards.TITLE: f"{len(report.guards):,}{failed}",
        fallbacks.TITLE: f"{len(report.fallbacks):,}",
        bytecode.TITLE: count(len(report.bytecode), "function"),
        timing.TITLE: seconds(report.seconds),
    }


def html(report: Report) -> Html:
    """Render the report in one element that reads well with its ``<style>`` taken away."""
    said = counts(report)
    opened = {code.TITLE, fallbacks.TITLE}
    parts = [
        (code.TITLE, code.html(report)),
        (graph.TITLE, graph.html(report)),
        (guards.TITLE, guards.html(report)),
        (fallbacks.TITLE, fallbacks.html(report)),
        (bytecode.TITLE, bytecode.html(report)),
        (timing.TITLE, timing.html(report)),
    ]
    folds = [
        markup.details(element("b", _name(name, said[name])), body, opened=name in opened)
        for name, body in parts
        if body
    ]
    lead = element("div", title(report), class_="dx-quiet")
    return element("div", STYLE, lead, summary.html(report), *folds, class_="dx dx-static")


def text(report: Report) -> str:
    """Render the report for a terminal, 96 columns wide; the bytecode itself is left out."""
    said = counts(report)
    parts = [
        (code.TITLE, code.text(report)),
        (fallbacks.TITLE, fallbacks.text(report)),
        (graph.TITLE, graph.text(report)),
        (guards.TITLE, guards.text(report)),
        (bytecode.TITLE, bytecode.brief(report)),
        (timing.TITLE, timing.text(report)),
    ]
    sections = [f"{plain.heading(_name(name, said[name]))}\n{body}" for name, body in parts if body]
    return "\n\n".join([plain.heading(title(report)), summary.text(report), *sections])


def _name(name: str, said: str) -> str:
    return f"{name} ({said})" if said else name
