"""What the pages of all studies write in one way: a line of a table, a cell, a ratio."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def line(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(head: str, lines: Iterable[Sequence[object]]) -> str:
    """A table whose names of columns have commas between them, or a word where it is empty."""
    names, found = head.split(", "), [line(each) for each in lines]
    return "\n".join([line(names), line(["---"] * len(names)), *found]) if found else "Nothing."


def cell(text: str) -> str:
    """Text that does not end a table's cell, and shows no path of the machine."""
    plain = re.sub(r"(/[\w.+-]+){2,}", "…", text).replace("\n", " ")
    return plain.replace("|", "\\|").replace("<", "&lt;")


def told(ratio: float, low: float, high: float) -> str:
    """A ratio of two times with its 95 % interval: ``1.87 (1.81–1.93)``."""
    return f"{ratio:.2f} ({low:.2f}–{high:.2f})"
