"""HTML that is well formed and escaped by construction.

A plain ``str`` is escaped wherever it is put in; only `Html`, which `element` alone makes, passes
as it is. So a name that a user chose can never become markup, and a slip shows as visible
``&lt;`` rather than as a hole.
"""

from __future__ import annotations

import re
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence


_QUOTED = re.compile(r"`([^`\n]+)`")


class Html(str):
    """Text that is markup already."""

    __slots__ = ()


BREAK = Html("<br>")
EMPTY = Html("")

# JupyterLab and GitHub align the cells of an output's table to the right, and both drop <style>
# from an untrusted notebook; these two declarations pass their sanitizers.
_LEFT = "text-align:left;vertical-align:top"
_RIGHT = "text-align:right;vertical-align:top"


def html(value: object) -> Html:
    """``value`` as markup: itself if it is `Html`, else its text, escaped."""
    return value if isinstance(value, Html) else Html(escape(str(value)))


def join(parts: Iterable[object], separator: str = "") -> Html:
    """Join the parts to one piece of markup, each escaped unless it is `Html`."""
    return Html(html(separator).join(html(part) for part in parts))


def element(tag: str, *children: object, **attributes: object) -> Html:
    """``<tag attributes>children</tag>``.

    Attributes take a trailing underscore for Python's keywords and an inner one for a dash
    (``class_``, ``aria_label``); ``None`` leaves an attribute out.
    """
    opening = tag + "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Html(f"<{opening}>{''.join(html(child) for child in children)}</{tag}>")


def code(text: str) -> Html:
    """``text`` as inline code, or nothing for no text."""
    return element("code", text) if text else EMPTY


def prose(text: str) -> Html:
    """``text`` with what stands between backticks as code, as torch and guards write it."""
    parts = _QUOTED.split(text)
    return join(code(part) if index % 2 else part for index, part in enumerate(parts))


def unbroken(text: str) -> Html:
    """``text`` on one line, for what reads badly in two."""
    return element("span", text, style="white-space:nowrap") if text else EMPTY


def lines(text: str) -> Html:
    """``text`` with its line breaks kept even where ``white-space`` cannot be set."""
    return Html(BREAK.join(html(line) for line in text.splitlines()))


def details(summary: object, *children: object, opened: bool = False) -> Html:
    """Make a part that folds without a script; ``opened`` says how it starts."""
    return element("details", element("summary", summary), *children, open="" if opened else None)


def table(
    label: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Collection[int] = (),
    class_: str | None = None,
) -> Html:
    """Make a table with a header row, in a region of its own that scrolls when it is too wide.

    Parameters
    ----------
    label
        What a screen reader calls it.
    headers, rows
        The cells; plain strings are escaped.
    numeric
        Indices of the columns that are aligned to the right.
    class_
        A class for the table.
    """
    styles = [_RIGHT if index in numeric else _LEFT for index in range(len(headers))]
    head = element(
        "tr",
        *(element("th", h, scope="col", style=s) for h, s in zip(headers, styles, strict=True)),
    )
    body = [
        element("tr", *(element("td", c, style=s) for c, s in zip(row, styles, strict=True)))
        for row in rows
    ]
    grid = element(
        "table", element("thead", head), element("tbody", *body), aria_label=label, class_=class_
    )
    return element("div", grid, class_="dx-wide")
