"""Text for a terminal: tables and paragraphs that fit its width."""

import operator
import shutil
import sys
import textwrap
from collections.abc import Collection, Iterable, Sequence
from itertools import zip_longest

from markupsafe import Markup

from dynamo_ext.formatting import printable

WIDTH = 96
_GAP = "  "
_NARROWEST = 6
_NAME = 16


def line_width() -> int:
    """The terminal's width, 40 to `WIDTH`; `WIDTH` where the text goes anywhere else."""
    # A kernel's own stdout is not a terminal, though its server may run in one.
    if not sys.stdout.isatty():
        return WIDTH
    return min(max(shutil.get_terminal_size((WIDTH, 24)).columns, 40), WIDTH)


def paragraph(text: str, indent: str = "", first: str | None = None) -> str:
    """``text`` wrapped to the width; ``first`` replaces the indent of the first line."""
    return textwrap.fill(
        " ".join(printable(text).split()),
        line_width(),
        initial_indent=indent if first is None else first,
        subsequent_indent=indent,
        break_on_hyphens=False,
    )


def step(text: str) -> str:
    """A paragraph under an item: what helps."""
    return paragraph(text, "      ", "    → ")


def heading(title: str) -> str:
    """Underline a title."""
    return f"{title}\n{'─' * len(title)}"


def section(title: str, body: str) -> str:
    """``body`` under its heading; empty for none."""
    return f"{heading(title)}\n{body}" if body else ""


def table(
    headers: Sequence[str], rows: Iterable[Sequence[str]], *, numeric: Collection[int] = ()
) -> str:
    """Aligned columns under their headers; the widest columns wrap until all fit."""
    cells = [[printable(_plain(cell)) for cell in row] for row in rows]
    widths = _fit([list(headers), *cells], line_width())
    shown = [_row(list(headers), widths, numeric), _GAP.join("─" * each for each in widths)]
    shown += [_row(row, widths, numeric) for row in cells]
    return "\n".join(shown)


def _plain(cell: str) -> str:
    """The text of a cell, each line of markup on a line of its own."""
    if not isinstance(cell, Markup):
        return cell
    return "\n".join(line.striptags() for line in cell.split("<br>"))


def _fit(rows: Sequence[Sequence[str]], width: int) -> list[int]:
    """Column widths: what the cells need, less what the widest must give up."""
    columns = zip(*rows, strict=True)
    widths = [
        max(1, *(len(part) for cell in column for part in cell.split("\n"))) for column in columns
    ]
    excess = sum(widths) + len(_GAP) * (len(widths) - 1) - width
    # A name stays in one piece where the columns after it can be narrower.
    for first in (min(widths[0], _NAME), 0):
        floors = [max(_NARROWEST, first), *(_NARROWEST for _ in widths[1:])]
        while excess > 0 and any(map(operator.gt, widths, floors)):
            widest = max(range(len(widths)), key=lambda i: (widths[i] > floors[i], widths[i]))
            widths[widest] -= 1
            excess -= 1
    return widths


def _row(cells: Sequence[str], widths: Sequence[int], numeric: Collection[int]) -> str:
    """One row, over as many lines as its tallest cell wraps to."""
    wrapped = [
        [part for line in cell.split("\n") for part in _wrapped(line, width)]
        for cell, width in zip(cells, widths, strict=True)
    ]
    sides = [">" if index in numeric else "<" for index in range(len(widths))]
    lines = [
        _GAP.join(
            f"{part:{side}{width}}" for part, side, width in zip(parts, sides, widths, strict=True)
        )
        for parts in zip_longest(*wrapped, fillvalue="")
    ]
    return "\n".join(line.rstrip() for line in lines)


def _wrapped(line: str, width: int) -> list[str]:
    if len(line) <= width and line.isprintable():
        return [line]
    return textwrap.wrap(line, width, break_on_hyphens=False) or [""]
