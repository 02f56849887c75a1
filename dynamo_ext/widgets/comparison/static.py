"""A comparison shown: as text, as static html, as a page of its own, and live in a notebook."""

import json
from collections.abc import Callable, Sequence

from dynamo_ext.formatting import printable, sentence
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison import accuracy as comparison_accuracy
from dynamo_ext.widgets.comparison import columns, limits
from dynamo_ext.widgets.comparison import graphs as comparison_graphs
from dynamo_ext.widgets.comparison import table as comparison_table
from dynamo_ext.widgets.comparison.chart import Chart
from dynamo_ext.widgets.comparison.pareto import has_precisions
from dynamo_ext.widgets.comparison.summary import closing, headline, status
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, STYLE, Markup, asset, element, prose


def text(record: Comparison) -> str:
    """Render the comparison for a terminal, 96 columns wide."""
    rows = columns.ordered(record)
    parts = [
        plain_text.heading(_title(record)),
        plain_text.paragraph(headline(record)),
        comparison_table.text(record),
    ]
    if near := limits.sentences(record):
        parts.append(plain_text.paragraph(near))
    if accuracy := comparison_accuracy.text(rows):
        parts.append(f"{plain_text.heading(comparison_accuracy.TITLE)}\n{accuracy}")
    if graphs := comparison_graphs.text(record):
        parts.append(f"{plain_text.heading(comparison_graphs.TITLE)}\n{graphs}")
    if record.notes:
        parts.append("\n".join(plain_text.paragraph(note, "  ", "! ") for note in record.notes))
    parts.append(plain_text.paragraph(closing(record)))
    return "\n\n".join(parts)


def html(record: Comparison) -> Markup:
    """Render the comparison in one element that reads well without style, script and SVG."""
    rows = columns.ordered(record)
    drawn = [Chart(record, rows, "Speedup", log=wide(record)).png()]
    if has_precisions(record):
        drawn.append(Chart(record, rows, "Error").png())
    return element("div", STYLE, *_parts(record, *drawn), class_="dx dx-static")


def mimebundle(record: Comparison) -> dict[str, str]:
    """Make the static forms by mime type: ``text/html`` and ``text/plain``."""
    return {"text/html": str(html(record)), "text/plain": text(record)}


def page(record: Comparison) -> str:
    """Make a page of its own that needs no network: light or dark, its columns sortable."""
    rows = columns.ordered(record)
    log = wide(record)
    drawn = [Chart(record, rows, "Speedup", log=log).svg()]
    if has_precisions(record):
        drawn.append(Chart(record, rows, "Error").svg())
    if any(each.timing for each in rows):
        samples = Chart(record, rows, "Samples", log=log).svg()
        drawn.append(markup.titled("Samples", samples))
    title = _title(record)
    parts = _parts(record, *drawn, click=_click)
    order = {
        column.title: {
            "up": _names(columns.ordered(record, column.title)),
            "down": _names(columns.ordered(record, column.title, reverse=True)),
            "falls": column.falling,
        }
        for column in columns.COLUMNS
    }
    # The text of a script ends at its closing tag, whatever string contains it.
    data = Markup(json.dumps(order).replace("<", "\\u003c"))
    scripts = [
        element("script", data, type="application/json", id="dx-order"),
        element("script", asset("sort.js")),
    ]
    return markup.page(title, parts, scripts)


def lead(record: Comparison) -> Markup:
    """Render the answer: verdict and sentence."""
    grade, word = status(record)
    tag = element("strong", word, class_=f"dx-status dx-{grade}")
    return element("p", tag, " ", headline(record), class_="dx-headline")


def notes(record: Comparison) -> Markup:
    """Render what the reader should know, and how it was measured."""
    listed = [element("li", prose(sentence(printable(note)))) for note in record.notes]
    known = element("ul", *listed) if listed else EMPTY
    return markup.join([known, element("p", closing(record), class_="dx-quiet dx-note")])


def _parts(
    record: Comparison, *charts: Markup, click: Callable[[str], str] | None = None
) -> list[Markup]:
    rows = columns.ordered(record)
    table = comparison_table.html(record, rows, click=click)
    more: list[Markup] = []
    for name in ("Speed", "Coverage and memory", "Errors"):
        more += [element("h4", name), comparison_table.html(record, rows, name, reasons=False)]
    near = markup.quiet(limits.sentences(record))
    parts = [lead(record), table, *charts, near, markup.titled("More columns", *more)]
    if accuracy := comparison_accuracy.html(rows):
        wrong = any(each.outcome == "wrong" for each in rows)
        parts.append(markup.titled(comparison_accuracy.TITLE, accuracy, opened=wrong))
    if graphs := comparison_graphs.html(record):
        name = f"{comparison_graphs.TITLE} ({len(record.graphs):,})"
        parts.append(markup.titled(name, graphs))
    return [*parts, notes(record)]


def wide(record: Comparison) -> bool:
    """Whether the speedups span so much that a linear axis would hide the small ones."""
    ratios = [each.speedup.ratio for each in record.candidates if each.speedup]
    return bool(ratios) and max(*ratios, 1.0) / min(*ratios, 1.0) > 5  # noqa: PLR2004 - by eye


def _title(record: Comparison) -> str:
    return f"Comparison · {printable(' '.join(record.title.split()))}"


def _click(title: str) -> str:
    return f"dxSort(this, {json.dumps(title)})"


def _names(rows: Sequence[CandidateResult]) -> list[str]:
    return [printable(each.name) for each in rows]
