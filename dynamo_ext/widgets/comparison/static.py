"""A comparison shown: as text, as static html, as a page of its own."""

import json
from collections.abc import Callable, Iterator, Sequence

from dynamo_ext.analysis.kept_operations import clauses
from dynamo_ext.formatting import printable, sentence
from dynamo_ext.records.comparison import Comparison
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison import accuracy as comparison_accuracy
from dynamo_ext.widgets.comparison import columns
from dynamo_ext.widgets.comparison import graphs as comparison_graphs
from dynamo_ext.widgets.comparison import table as comparison_table
from dynamo_ext.widgets.comparison.chart import Chart
from dynamo_ext.widgets.comparison.summary import closing, headline, limit, status
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, STYLE, Markup, asset, element, prose


def text(record: Comparison) -> str:
    """Render the comparison for a terminal, 96 columns wide."""
    rows = columns.ordered(record)
    parts = [
        plain_text.heading(_title(record)),
        plain_text.paragraph(headline(record)),
        comparison_table.text(record, rows),
        plain_text.paragraph(limit(record)),
        plain_text.section(comparison_accuracy.TITLE, comparison_accuracy.text(rows)),
        plain_text.section(comparison_graphs.TITLE, comparison_graphs.text(record)),
        "\n".join(plain_text.paragraph(note, "  ", "! ") for note in _noted(record)),
        plain_text.paragraph(_program(record)),
        plain_text.paragraph(closing(record)),
    ]
    return "\n\n".join(filter(None, parts))


def html(record: Comparison) -> Markup:
    """Render the comparison in one element that reads well without style, script and SVG."""
    drawn = [_speedups(record).png()]
    return element("div", STYLE, *_parts(record, drawn), class_="dx dx-static")


def page(record: Comparison) -> str:
    """Make a page of its own that needs no network: light or dark, its columns sortable."""
    drawn = [_speedups(record).svg()]
    samples = Chart(record, columns.ordered(record), "Samples")
    if samples.rows:
        drawn.append(markup.titled("Samples", samples.svg()))
    parts = _parts(record, drawn, click=lambda title: f"dxSort(this, {json.dumps(title)})")
    order = {
        title: {
            way: [printable(row.name) for row in columns.ordered(record, title, reverse=down)]
            for way, down in (("up", False), ("down", True))
        }
        | {"falls": column.falling}
        for title, column in columns.BY_TITLE.items()
    }
    # The text of a script ends at its closing tag, whatever string contains it.
    data = Markup(json.dumps(order).replace("<", "\\u003c"))
    scripts = [
        element("script", data, type="application/json", id="dx-order"),
        element("script", asset("sort.js")),
    ]
    return markup.page(_title(record), parts, scripts)


def lead(record: Comparison) -> Markup:
    """Render the answer: verdict and sentence."""
    grade, word = status(record)
    tag = element("strong", word, class_=f"dx-status dx-{grade}")
    return element("p", tag, " ", headline(record), class_="dx-headline")


def notes(record: Comparison) -> Markup:
    """Render what the reader should know, and how it was measured."""
    listed = [element("li", prose(sentence(printable(note)))) for note in _noted(record)]
    known = element("ul", *listed) if listed else EMPTY
    program = element("p", prose(_program(record))) if _program(record) else EMPTY
    return markup.join([known, program, element("p", closing(record), class_="dx-quiet dx-note")])


def _program(record: Comparison) -> str:
    """How a program compiles a model as the best row."""
    best = record.best
    return f"In a program: `{best.program}`." if best is not None and best.program else ""


def _noted(record: Comparison) -> Iterator[str]:
    """What was noted while it was measured, and what rows in a lower precision do not lower."""
    yield from record.notes
    for each in record.candidates:
        for clause in clauses(each.report) if each.report else ():
            yield sentence(f"{each.name}: {clause}")


def _speedups(record: Comparison) -> Chart:
    return Chart(record, columns.ordered(record), "Speedup")


def _parts(
    record: Comparison, charts: Sequence[Markup], click: Callable[[str], str] | None = None
) -> list[Markup]:
    rows = columns.ordered(record)
    table = comparison_table.html(record, rows, click=click)
    more: list[Markup] = []
    for name in ("Speed", "Coverage and memory", "Errors"):
        more += [element("h4", name), comparison_table.html(record, rows, name, reasons=False)]
    near = markup.quiet(limit(record))
    parts = [lead(record), table, *charts, near, markup.titled("More columns", *more)]
    if accuracy := comparison_accuracy.html(rows):
        wrong = any(each.outcome == "wrong" for each in rows)
        parts.append(markup.titled(comparison_accuracy.TITLE, accuracy, opened=wrong))
    if graphs := comparison_graphs.html(record):
        name = f"{comparison_graphs.TITLE} ({len(record.graphs):,})"
        parts.append(markup.titled(name, graphs))
    return [*parts, notes(record)]


def _title(record: Comparison) -> str:
    return f"Comparison · {printable(' '.join(record.title.split()))}"
