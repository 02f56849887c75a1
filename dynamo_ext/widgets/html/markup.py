"""HTML that is well formed and escaped by construction.

A plain ``str`` is escaped wherever it is put in; only `Markup` passes as it is. So a name that a
user chose can never become markup, and a slip shows as visible ``&lt;`` rather than as a hole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import markupsafe

from dynamo_ext.formatting import clip, is_command, sentence

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

Markup = markupsafe.Markup
BREAK = Markup("<br>")
EMPTY = Markup()

_QUOTED = re.compile(r"`([^`\n]+)`")
_MAX_CHARS = 20_000
# JupyterLab and GitHub align the cells of an output's table to the right, and both drop <style>
# from an untrusted notebook; these two declarations pass their sanitizers.
LEFT = "text-align:left;vertical-align:top"
RIGHT = "text-align:right;vertical-align:top"


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Join the parts to one piece of markup, each escaped unless it is `Markup`."""
    return markupsafe.escape(separator).join(map(markupsafe.escape, parts))


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """``<tag attributes>children</tag>``.

    Attributes take a trailing underscore for Python's keywords and an inner one for a dash
    (``class_``, ``aria_label``); ``None`` leaves an attribute out.
    """
    opening = tag + "".join(
        f' {name.rstrip("_").replace("_", "-")}="{markupsafe.escape(value)}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{opening}>{join(children)}</{tag}>")


def code(text: str) -> Markup:
    """``text`` as inline code, or nothing for no text."""
    return element("code", text) if text else EMPTY


def prose(text: str) -> Markup:
    """``text`` with the words between backticks as code, as torch and guards write it."""
    parts = _QUOTED.split(text)
    return join(code(part) if index % 2 else part for index, part in enumerate(parts))


def remedy(text: str) -> Markup:
    """What helps: a command as code, anything else as a sentence."""
    return code(text) if is_command(text) else prose(sentence(text))


def quiet(text: str) -> Markup:
    """A paragraph beside the point, or nothing for no text."""
    return element("p", text, class_="dx-quiet") if text else EMPTY


def quiet_words(*words: object) -> Markup:
    """Words beside the point, within a paragraph or a cell."""
    return element("span", *words, class_="dx-quiet")


def unbroken(text: str) -> Markup:
    """``text`` on one line, for what reads badly in two."""
    return element("span", text, style="white-space:nowrap") if text else EMPTY


def lines(text: str) -> Markup:
    """``text`` with its line breaks kept even where ``white-space`` cannot be set."""
    return BREAK.join(text.splitlines())


def listing(source: str, limit: int | None, rest: str) -> Markup:
    """Source cut to ``limit`` lines, and how many more there are, as ``rest`` says it."""
    shown = source.strip("\n").split("\n")
    more = len(shown) - limit if limit is not None and len(shown) > limit else 0
    pre = element("pre", "\n".join(shown[:limit]), tabindex="0")
    return join([pre, quiet(f"{more:,} {rest}")]) if more else pre


def details(summary: object, *children: object, opened: bool = False) -> Markup:
    """Make a part that folds without a script; ``opened`` says how it starts."""
    return element("details", element("summary", summary), *children, open="" if opened else None)


def titled(name: str, *children: object, words: str = "", opened: bool = False) -> Markup:
    """Make a part that folds under a name and, in ``words``, what it has."""
    summary = join([element("b", name), f": {words}" if words else ""])
    return details(summary, *children, opened=opened)


def folded(text: str, limit: int, lead: str = "") -> Markup:
    """Fold a long text under its beginning, ``limit`` characters of it."""
    brief = join([lead, clip(" ".join(text.split()), limit)])
    return details(brief, element("pre", clip(text, _MAX_CHARS), tabindex="0"))


def region(child: Markup, label: str, class_: str = "dx-wide") -> Markup:
    """Make a region that scrolls: it must be reachable by keyboard."""
    return element("div", child, class_=class_, tabindex="0", role="region", aria_label=label)


def grid(label: str, head: Markup, rows: Iterable[Markup], class_: str | None = None) -> Markup:
    """Make a table of rows that are made already; ``label`` is what a screen reader calls it."""
    body = element("tbody", *rows)
    return element("table", element("thead", head), body, aria_label=label, class_=class_)


def table(
    label: str,
    headers: Sequence[str],
    rows: Iterable[Sequence[object]],
    *,
    numeric: Collection[int] = (),
    class_: str | None = None,
) -> Markup:
    """Make a table with a header row, in a part of its own that scrolls when it is too wide.

    ``numeric`` are indices of the columns that are aligned to the right.
    """
    styles = [RIGHT if index in numeric else LEFT for index in range(len(headers))]

    def row(tag: str, cells: Sequence[object], **attributes: str) -> Markup:
        pairs = zip(cells, styles, strict=True)
        return element("tr", *(element(tag, c, **attributes, style=s) for c, s in pairs))

    made = grid(label, row("th", headers, scope="col"), (row("td", r) for r in rows), class_)
    return element("div", made, class_="dx-wide")
