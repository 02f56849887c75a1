"""A comparison shown: as text, as static html, as a page of its own, and live in a notebook."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from dynamo_ext.widgets import (
    comparison_accuracy,
    comparison_columns,
    comparison_graphs,
    comparison_table,
    live,
    markup,
    plain,
)
from dynamo_ext.widgets.comparison_chart import Chart
from dynamo_ext.widgets.comparison_summary import closing, headline, status
from dynamo_ext.widgets.markup import EMPTY, Html, element, prose
from dynamo_ext.widgets.style import STYLE
from dynamo_ext.wording import printable, sentence

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.comparison import Comparison

_PAGE = """
:root { color-scheme: light dark; --jp-layout-color0: #fff; --jp-layout-color1: #fff;
  --jp-layout-color2: #eee; --jp-border-color2: #ddd; --jp-ui-font-color1: #1f1f1f;
  --jp-ui-font-color2: #5f6368; --jp-content-font-color1: #1f1f1f;
  --jp-content-font-color2: #5f6368; }
@media (prefers-color-scheme: dark) { :root { --jp-layout-color0: #111; --jp-layout-color1: #111;
  --jp-layout-color2: #2a2a2a; --jp-border-color2: #3c3c3c; --jp-ui-font-color1: #e8eaed;
  --jp-ui-font-color2: #a8adb3; --jp-content-font-color1: #e8eaed;
  --jp-content-font-color2: #a8adb3; } }
body { margin: 24px auto; padding: 0 24px; max-width: 1240px; background: var(--jp-layout-color0);
  color: var(--jp-content-font-color1); font-family: system-ui, sans-serif; }
h1 { font-size: 18px; font-weight: 600; }
"""

# Sorts the candidates where no kernel is; the values come from the record, not from the cells.
_SORT = """
function dxSort(button, title) {
  const keys = JSON.parse(document.getElementById('dx-order').textContent)[title];
  const table = button.closest('table'), head = button.closest('th');
  const falls = head.getAttribute('aria-sort') === 'ascending' ? true
    : head.getAttribute('aria-sort') === 'descending' ? false : keys.falls;
  const groups = {};
  let name = '';
  for (const row of table.tBodies[0].rows) {
    if (!row.classList.contains('dx-because')) name = row.cells[0].querySelector('b').textContent;
    (groups[name] = groups[name] || []).push(row);
  }
  for (const each of falls ? keys.down : keys.up)
    for (const row of groups[each] || []) table.tBodies[0].appendChild(row);
  for (const other of table.tHead.rows[0].cells) {
    other.setAttribute('aria-sort', 'none');
    const inner = other.querySelector('button');
    inner.textContent = inner.textContent.replace(/ [▲▼]$/, '');
  }
  head.setAttribute('aria-sort', falls ? 'descending' : 'ascending');
  button.textContent += falls ? ' ▼' : ' ▲';
}
"""


def text(record: Comparison) -> str:
    """Render the comparison for a terminal, 96 columns wide."""
    rows = comparison_columns.ordered(record)
    parts = [
        plain.heading(f"Comparison · {printable(' '.join(record.title.split()))}"),
        plain.paragraph(headline(record)),
        comparison_table.text(record),
    ]
    accuracy = comparison_accuracy.text(rows)
    if accuracy:
        parts.append(f"{plain.heading(comparison_accuracy.TITLE)}\n{accuracy}")
    graphs = comparison_graphs.text(record)
    if graphs:
        parts.append(f"{plain.heading(comparison_graphs.TITLE)}\n{graphs}")
    if record.notes:
        parts.append("\n".join(plain.paragraph(note, "  ", "! ") for note in record.notes))
    parts.append(plain.paragraph(closing(record)))
    return "\n\n".join(parts)


def html(record: Comparison) -> Html:
    """Render the comparison in one element that reads well without style, script and SVG."""
    chart = Chart(record, comparison_columns.ordered(record), "Speedup", log=wide(record)).png()
    return element("div", STYLE, *_parts(record, chart), class_="dx dx-static")


def mimebundle(record: Comparison) -> dict[str, str]:
    """Make the static forms by mime type: ``text/html`` and ``text/plain``."""
    return {"text/html": str(html(record)), "text/plain": text(record)}


def page(record: Comparison) -> str:
    """Make a page of its own that needs no network: light or dark, its columns sortable."""
    rows = comparison_columns.ordered(record)
    log = wide(record)
    drawn = [Chart(record, rows, "Speedup", log=log).svg()]
    if any(each.timing for each in rows):
        folded = markup.details(
            element("b", "Samples"), Chart(record, rows, "Samples", log=log).svg()
        )
        drawn.append(folded)
    title = f"Comparison · {printable(' '.join(record.title.split()))}"
    body = element(
        "div", STYLE, *_parts(record, *drawn, click=_click), class_="dx dx-static dx-page"
    )
    order = {
        name: {
            "up": _names(record, name, reverse=False),
            "down": _names(record, name, reverse=True),
            "falls": comparison_columns.falls(name),
        }
        for name in comparison_columns.SORTS
    }
    # The text of a script ends at its closing tag, whatever string that stands in.
    data = Html(json.dumps(order).replace("<", "\\u003c"))
    head = [
        Html('<meta charset="utf-8">'),
        Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", Html(_PAGE)),
        element("script", data, type="application/json", id="dx-order"),
        element("script", Html(_SORT)),
    ]
    content = element("body", element("main", element("h1", title), body))
    return f"<!doctype html>\n{element('html', element('head', *head), content, lang='en')}\n"


def display_comparison(record: Comparison, use: Callable[[str], str] | None = None) -> None:
    """Show a comparison wherever this runs: static html and the live view, or text.

    Parameters
    ----------
    record
        What to show.
    use
        Makes a candidate, by its name, the session's backend, and says so in a sentence; without
        one the view has no such control.
    """
    from dynamo_ext.widgets.comparison_view import ComparisonView

    live.show(
        lambda: text(record),
        lambda: mimebundle(record),
        lambda: ComparisonView(record, use),
    )


def lead(record: Comparison) -> Html:
    """Render the answer: verdict and sentence."""
    grade, word = status(record)
    tag = element("strong", word, class_=f"dx-status dx-{grade}")
    return element("p", tag, " ", headline(record), class_="dx-headline")


def notes(record: Comparison) -> Html:
    """Render what the reader should know, and how it was measured."""
    listed = [element("li", prose(sentence(printable(note)))) for note in record.notes]
    known = element("ul", *listed) if listed else EMPTY
    return markup.join([known, element("p", closing(record), class_="dx-quiet dx-note")])


def _parts(
    record: Comparison, *charts: Html, click: Callable[[str], str] | None = None
) -> list[Html]:
    rows = comparison_columns.ordered(record)
    table = comparison_table.html(record, rows, click=click)
    groups = [
        part
        for name in ("Speed", "Coverage and memory", "Errors")
        for part in (
            element("h4", name),
            comparison_table.html(record, rows, name, reasons=False),
        )
    ]
    parts = [lead(record), table, *charts, markup.details(element("b", "More columns"), *groups)]
    accuracy = comparison_accuracy.html(rows)
    if accuracy:
        wrong = any(each.outcome == "wrong" for each in rows)
        parts.append(
            markup.details(element("b", comparison_accuracy.TITLE), accuracy, opened=wrong)
        )
    graphs = comparison_graphs.html(record)
    if graphs:
        name = f"{comparison_graphs.TITLE} ({len(record.graphs):,})"
        parts.append(markup.details(element("b", name), graphs))
    return [*parts, notes(record)]


def wide(record: Comparison) -> bool:
    """Whether the speedups span so much that a linear axis would hide the small ones."""
    ratios = [each.speedup.ratio for each in record.candidates if each.speedup]
    return bool(ratios) and max(*ratios, 1.0) / min(*ratios, 1.0) > 5  # noqa: PLR2004 - by eye


def _click(title: str) -> str:
    return f"dxSort(this, {json.dumps(title)})"


def _names(record: Comparison, column: str, *, reverse: bool) -> list[str]:
    return [
        printable(each.name) for each in comparison_columns.ordered(record, column, reverse=reverse)
    ]
