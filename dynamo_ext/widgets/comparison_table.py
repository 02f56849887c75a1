"""The candidates as a table: as html, each row with its verdict and reason, and as text."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dynamo_ext.widgets import markup, plain
from dynamo_ext.widgets.comparison_columns import BY_TITLE, GROUPS, LEAD, NONE, Column, ordered
from dynamo_ext.widgets.comparison_summary import grade, verdict
from dynamo_ext.widgets.markup import EMPTY, Html, code, element, prose
from dynamo_ext.wording import clip, is_command, printable, sentence

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.comparison import CandidateResult, Comparison

_BRIEF = 200
_LONGEST = 20_000


def html(  # noqa: PLR0913 - how a table is shown, by keyword
    record: Comparison,
    rows: Sequence[CandidateResult],
    group: str = "Overview",
    *,
    by: str = "",
    reverse: bool = False,
    click: Callable[[str], str] | None = None,
    reasons: bool = True,
) -> Html:
    """Render candidates as a table with a header for every row.

    Parameters
    ----------
    record, rows
        The comparison, and those of its candidates to show.
    group
        Which columns: a key of ``GROUPS``.
    by, reverse
        What the rows are sorted by, for ``aria-sort``.
    click
        The inline handler of a column's header; none for plain headers.
    reasons
        Whether a row that does not count says why.
    """
    columns = [BY_TITLE[title] for title in GROUPS[group]]
    head = element("tr", *(_header(each, by, click, reverse=reverse) for each in columns))
    body = [part for each in rows for part in _row(record, each, columns, reasons=reasons)]
    grid = element(
        "table",
        element("thead", head),
        element("tbody", *body),
        aria_label=f"Candidates: {group}",
        class_="dx-compare",
    )
    # A region that scrolls must be reachable by keyboard.
    label = f"Candidates, {group}: scrolls sideways"
    return element("div", grid, class_="dx-wide", tabindex="0", role="region", aria_label=label)


def text(record: Comparison) -> str:
    """Render the table for a terminal, and under it why rows do not count."""
    titles = {
        "Candidate": "Candidate", "Verdict": "Verdict", "Speedup": "Speedup", "Median": "Median",
        "First call": "1st call", "Pays off after": "Pays off", "In engine": "In engine",
        "Peak memory": "Peak", "Max error": "Error",
    }  # fmt: skip
    rows = ordered(record)
    columns = [BY_TITLE[title] for title in titles]
    cells = [[_brief(column.cell(record, each)) for column in columns] for each in rows]
    parts = [plain.table(list(titles.values()), cells, numeric=set(range(3, len(titles))))]
    why = [
        plain.paragraph(f"{each.name}: {_why(each)}", "  ", "")
        for each in rows
        if each.reason or each.remedy
    ]
    return "\n\n".join([*parts, *(["\n".join(why)] if why else [])])


def _brief(cell: str) -> str:
    short = {
        "○ ran eagerly": "○ eager",
        "✗ unavailable": "✗ missing",
        "– not measured": "– none",
        "does not count": NONE,
    }
    return short.get(cell, cell).removesuffix(" calls").replace(" of ", "/")


def _why(each: CandidateResult) -> str:
    remedy = each.remedy if is_command(each.remedy) else sentence(each.remedy)
    said = sentence(clip(" ".join(printable(each.reason).split()), 2 * _BRIEF))
    return f"{said} {remedy}".strip()


def _header(column: Column, by: str, click: Callable[[str], str] | None, *, reverse: bool) -> Html:
    style = "text-align:left" if column.title in LEAD else "text-align:right"
    sort = None
    label: object = column.title
    if column.title == by:
        sort = "descending" if reverse else "ascending"
        label = f"{column.title} {'▼' if reverse else '▲'}"
    elif click is not None:
        sort = "none"
    if click is not None:
        label = element(
            "button", label, type="button", class_="dx-sort-by", onclick=click(column.title)
        )
    return element("th", label, scope="col", style=style, title=column.about, aria_sort=sort)


def _row(
    record: Comparison, each: CandidateResult, columns: Sequence[Column], *, reasons: bool
) -> list[Html]:
    why = _reason(each) if reasons else EMPTY
    name: list[object] = [element("b", printable(each.name))]
    if each.options:
        options = ", ".join(f"{key}={value}" for key, value in each.options)
        name += [markup.BREAK, element("span", printable(options), class_="dx-quiet")]
    if each.worker:
        name += [markup.BREAK, element("span", f"in {printable(each.worker)}", class_="dx-quiet")]
    left = "text-align:left;vertical-align:top"
    lead = element("th", *name, scope="row", style=left)
    tint = grade(record, each)
    word = element(
        "span", verdict(record, each), class_=f"dx-word dx-{tint}" if tint else "dx-word"
    )
    start = [lead, element("td", word, style=left)]
    rest = columns[len(LEAD) :]
    if why and each.timing is None:
        cell = element("td", element("div", why), colspan=len(rest), style=left, class_="dx-why")
        return [element("tr", *start, cell)]
    right = "text-align:right;vertical-align:top;white-space:nowrap"
    won = "dx-won" if each is record.best else None
    cells = [
        element(
            "td",
            column.cell(record, each),
            style=right,
            class_=won if column.title == "Speedup" else None,
        )
        for column in rest
    ]
    rows = [element("tr", *start, *cells)]
    if why:
        cell = element(
            "td", element("div", why), colspan=len(columns) - 1, style=left, class_="dx-why"
        )
        rows.append(element("tr", element("td", EMPTY), cell, class_="dx-because"))
    return rows


def _reason(each: CandidateResult) -> Html:
    """Why a row does not count, and what mends it; a long reason folds under its beginning."""
    reason = printable(each.reason).strip()
    parts: list[object] = []
    if len(reason) > _BRIEF or "\n" in reason:
        brief = clip(" ".join(reason.split()), _BRIEF)
        parts.append(markup.details(brief, element("pre", clip(reason, _LONGEST), tabindex="0")))
    elif reason:
        parts.append(prose(sentence(reason)))
    if each.remedy:
        remedy = printable(each.remedy)
        said = code(remedy) if is_command(remedy) else prose(sentence(remedy))
        parts.append(markup.join(["→ ", said]))
    return markup.join(parts, " ") if parts else EMPTY
