"""Paragraphs and tables that a notebook shows as html and a terminal as text."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from dynamo_ext.widgets import plain_text
from dynamo_ext.widgets.html import markup
from dynamo_ext.widgets.html.markup import EMPTY, STYLE, Markup, element


class Quiet(str):
    """A paragraph beside the point."""

    __slots__ = ()


class Heading(str):
    """A heading, which a terminal leaves out."""

    __slots__ = ()


@dataclass(frozen=True)
class Table:
    """A table; without rows it does not show.

    ``label`` is what a screen reader calls it, ``title`` the heading over it in html; the columns
    ``numeric`` are aligned to the right. Of markup in a cell, a terminal shows the text.
    """

    label: str
    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    numeric: Collection[int] = ()
    title: str = ""


@dataclass(frozen=True)
class Items:
    """A list that folds under its title, open at first."""

    title: str
    items: Sequence[str]


Block = str | Table | Items


def row_of_left_out(total: int, most: int | None, columns: int) -> list[list[str]]:
    """The last row of a table that shows the first ``most`` of ``total``, if that is not all."""
    if most is None or total <= most:
        return []
    left = element("span", f"… {total - most:,} more", class_=markup.CUT)
    return [[left, *[""] * (columns - 1)]]


def html(blocks: Iterable[Block]) -> Markup:
    """Render the blocks one below the other; empty for none."""
    return markup.join(_html(block) for block in blocks if block)


def text(blocks: Iterable[Block]) -> str:
    """Render the same for a terminal."""
    return "\n\n".join(filter(None, map(_text, blocks)))


def _html(block: Block) -> Markup:
    if isinstance(block, str):
        if isinstance(block, Quiet):
            return markup.quiet(block)
        return element("h4" if isinstance(block, Heading) else "p", block)
    if isinstance(block, Items):
        items = element("ul", *(element("li", markup.prose(item)) for item in block.items))
        return markup.titled(block.title, items, opened=True)
    if not block.rows:
        return EMPTY
    table = markup.table(block.label, block.headers, block.rows, numeric=block.numeric)
    return markup.join([element("h4", block.title), table]) if block.title else table


def _text(block: Block) -> str:
    if isinstance(block, str):
        return "" if isinstance(block, Heading) else plain_text.paragraph(block)
    if isinstance(block, Items):
        lines = [plain_text.paragraph(item, "      ", "  ") for item in block.items]
        return "\n".join([f"{block.title}:", *lines])
    if not block.rows:
        return ""
    return plain_text.table(block.headers, block.rows, numeric=block.numeric)


class Shown:
    """What is shown by itself: a notebook asks for its html, a terminal for its text."""

    def __init__(self, blocks: Iterable[Block]) -> None:
        self._blocks = tuple(blocks)

    def html(self) -> Markup:
        """Render it with its style."""
        return element("div", STYLE, html(self._blocks), class_="dx")

    def text(self) -> str:
        """Render it for a terminal."""
        return text(self._blocks)

    def _repr_html_(self) -> str:
        return str(self.html())

    def __repr__(self) -> str:
        return self.text()
