"""The candidates as a table: as html, each row with its verdict and reason, and as text."""

from collections.abc import Callable, Sequence

from dynamo_ext.formatting import clip, printable, remedy, sentence
from dynamo_ext.records.comparison import CandidateResult, Comparison
from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.comparison.columns import BY_TITLE, GROUPS, IN_TERMINAL, LEAD, Column, shown
from dynamo_ext.widgets.comparison.summary import grade, verdict
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, LEFT, RIGHT, Markup, element, prose, quiet_words

_SUMMARY_CHARS = 200


def html(  # noqa: PLR0913 - how a table is shown, by keyword
    record: Comparison,
    rows: Sequence[CandidateResult],
    group: str = "Overview",
    *,
    by: str = "",
    reverse: bool = False,
    click: Callable[[str], str] | None = None,
    reasons: bool = True,
) -> Markup:
    """Render candidates as a table with a header for every row.

    ``group`` is a key of ``GROUPS``; ``by`` and ``reverse`` say how the rows are sorted. ``click``
    gives the handler of a column's header. ``reasons``: a row that is not compared says why.
    """
    columns = shown([BY_TITLE[title] for title in GROUPS[group]], record, rows)
    head = element("tr", *(_header(each, by, click, reverse=reverse) for each in columns))
    body = [part for each in rows for part in _row(record, each, columns, reasons=reasons)]
    grid = markup.grid(f"Candidates: {group}", head, body, "dx-compare")
    return markup.region(grid, f"Candidates, {group}: scrolls sideways")


def text(record: Comparison, rows: Sequence[CandidateResult]) -> str:
    """Render the table for a terminal, and under it why rows are not compared."""
    columns = shown(IN_TERMINAL, record, rows)
    cells = [[column.cell(record, each, brief=True) for column in columns] for each in rows]
    titles = [column.short or column.title for column in columns]
    table = plain_text.table(titles, cells, numeric=set(range(3, len(titles))))
    why = [
        plain_text.paragraph(f"{each.name}: {said} {remedy(each.remedy)}".strip(), "  ", "")
        for each in rows
        if each.reason or each.remedy
        for said in [sentence(clip(" ".join(printable(each.reason).split()), 2 * _SUMMARY_CHARS))]
    ]
    return "\n\n".join(filter(None, [table, "\n".join(why)]))


def _header(
    column: Column, by: str, click: Callable[[str], str] | None, *, reverse: bool
) -> Markup:
    style = "text-align:left" if column.title in LEAD else "text-align:right"
    sort = None if click is None else "none"
    label: object = column.title
    if column.title == by:
        sort = "descending" if reverse else "ascending"
        label = f"{column.title} {'▼' if reverse else '▲'}"
    if click is not None:
        handler = click(column.title)
        label = element("button", label, type="button", class_="dx-sort-by", onclick=handler)
    return element("th", label, scope="col", style=style, title=column.about, aria_sort=sort)


def _row(
    record: Comparison, candidate: CandidateResult, columns: Sequence[Column], *, reasons: bool
) -> list[Markup]:
    why = _reason(candidate) if reasons else EMPTY
    named = candidate.name.endswith("]")
    options = "" if named else ", ".join(f"{key}={value}" for key, value in candidate.options)
    name = [element("b", printable(candidate.name))]
    name += [quiet_words(printable(options))] if options else []
    lead = element("th", markup.join(name, markup.BREAK), scope="row", style=LEFT)
    tint = grade(record, candidate)
    classes = f"dx-word dx-{tint}" if tint else "dx-word"
    word = element("span", verdict(record, candidate), class_=classes)
    start = [lead, element("td", word, style=LEFT)]
    rest = columns[len(LEAD) :]
    if why and candidate.timing is None:
        return [element("tr", *start, _why_cell(why, len(rest)))]
    right = f"{RIGHT};white-space:nowrap"
    won = BY_TITLE["Speedup"] if candidate is record.best else None
    cells = [
        element("td", c.cell(record, candidate), style=right, class_="dx-won" if c is won else None)
        for c in rest
    ]
    rows = [element("tr", *start, *cells)]
    if why:
        cell = _why_cell(why, len(columns) - 1)
        rows.append(element("tr", element("td"), cell, class_="dx-because"))
    return rows


def _why_cell(why: Markup, columns: int) -> Markup:
    return element("td", element("div", why), colspan=columns, style=LEFT, class_="dx-why")


def _reason(candidate: CandidateResult) -> Markup:
    """Why a row is not compared, and the remedy; a long reason folds under its beginning."""
    reason = printable(candidate.reason).strip()
    parts: list[object] = []
    if len(reason) > _SUMMARY_CHARS or "\n" in reason:
        parts.append(markup.folded(reason, _SUMMARY_CHARS))
    elif reason:
        parts.append(prose(sentence(reason)))
    if candidate.remedy:
        parts.append(markup.join(["→ ", markup.remedy(printable(candidate.remedy))]))
    return markup.join(parts, " ")
