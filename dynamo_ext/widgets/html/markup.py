"""HTML that is well formed and escaped by construction: only `Markup` is not escaped."""

import functools
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

import markupsafe

from dynamo_ext.formatting import clip, count, is_command, sentence

Markup = markupsafe.Markup
BREAK = Markup("<br>")
EMPTY = Markup()

_QUOTED = re.compile(r"`([^`\n]+)`")
_MAX_CHARS = 20_000
# JupyterLab and GitHub align the cells of an output's table to the right, and both drop <style>
# from an untrusted notebook; these two declarations pass their sanitizers.
LEFT = "text-align:left;vertical-align:top"
RIGHT = "text-align:right;vertical-align:top"
HUES = 6
CUT = "dx-quiet dx-cut"
"""The class of what says that a list or listing has more than it shows."""

MOST = 200
"""Rows of a table, and lines of a listing, in static html that has room for them."""


def asset(name: str) -> Markup:
    """The text of a style sheet or script in ``assets`` without its comments, as markup."""
    text = (Path(__file__).parent / "assets" / name).read_text(encoding="utf-8")
    return Markup(re.sub(r"/\*.*?\*/\s*", "", text, flags=re.DOTALL))


STYLE = Markup("<style>{}</style>").format(asset("report.css"))


def page(title: str, parts: Iterable[object], scripts: Iterable[Markup] = ()) -> str:
    """A page of its own that needs no network, light or dark as the reader has it."""
    head = [
        Markup('<meta charset="utf-8">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        element("title", title),
        element("style", asset("page.css")),
        *scripts,
    ]
    body = element("div", STYLE, *parts, class_="dx dx-static dx-page")
    content = element("body", element("main", element("h1", title), body))
    return f"<!doctype html>\n{element('html', element('head', *head), content, lang='en')}\n"


def hue(index: int) -> str:
    """Name the class that tints the ``index``-th graph or engine."""
    return f"dx-h{index % HUES}"


def join(parts: Iterable[object], separator: str = "") -> Markup:
    """Join the parts to one piece of markup, each escaped unless it is `Markup`."""
    return Markup(_joined(parts, str(markupsafe.escape(separator))))


def _joined(parts: Iterable[object], separator: str = "") -> str:
    # `escape` makes another object of what is markup already: most of what a report is made of.
    # Markup's own join would escape each part again.
    return separator.join(
        [part if type(part) is Markup else markupsafe.escape(part) for part in parts]
    )


def element(tag: str, *children: object, **attributes: object) -> Markup:
    """``<tag attributes>children</tag>``.

    ``class_`` is ``class``, ``aria_label`` ``aria-label``; ``None`` leaves an attribute out.
    """
    return Markup(
        f"<{tag}{_written(tuple(attributes), *attributes.values())}>{_joined(children)}</{tag}>"
    )


@functools.lru_cache(maxsize=1000, typed=True)
def _written(names: tuple[str, ...], *values: object) -> str:
    return "".join(
        f' {name.rstrip("_").replace("_", "-")}="{markupsafe.escape(value)}"'
        for name, value in zip(names, values, strict=True)
        if value is not None
    )


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


def left_out(total: int, most: int | None, noun: str) -> Markup:
    """Say how many of ``total`` are beyond the first ``most`` (``None``: all are listed)."""
    left = 0 if most is None else max(total - most, 0)
    return _cut(f"{count(left, f'more {noun}')}.") if left else EMPTY


def _cut(words: str) -> Markup:
    return element("p", words, class_=CUT)


def listing(source: str, limit: int | None, rest: str) -> Markup:
    """Source cut to ``limit`` lines, and how many more there are, as ``rest`` says it."""
    shown = source.strip("\n").split("\n")
    more = len(shown) - limit if limit is not None and len(shown) > limit else 0
    pre = element("pre", "\n".join(shown[:limit]), tabindex="0")
    return join([pre, _cut(f"{more:,} {rest}")]) if more else pre


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
    """Make a table with a header row that scrolls; columns in ``numeric`` are aligned right."""
    head = row("th", headers, numeric, scope="col")
    made = [row("td", cells, numeric) for cells in rows]
    return region(grid(label, head, made, class_), f"{label}: scrolls")


def row(tag: str, cells: Sequence[object], numeric: Collection[int], **more: str) -> Markup:
    """Make a row of cells; the columns ``numeric`` are aligned to the right."""
    styles = [RIGHT if index in numeric else LEFT for index in range(len(cells))]
    pairs = zip(cells, styles, strict=True)
    return element("tr", *(element(tag, cell, **more, style=style) for cell, style in pairs))
