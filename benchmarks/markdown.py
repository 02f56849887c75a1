"""What the pages of all studies write in one way: a line of a table, a cell, a ratio."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def line(cells: Iterable[object]) -> str:
    """A line of a table."""
    return f"| {' | '.join(map(str, cells))} |"


def table(head: str, lines: Iterable[Sequence[object]], empty: str = "Nothing.") -> str:
    """A table whose names of columns have strokes between them, or a word where it is empty.

    A name that ends with a colon is that of a column of numbers.
    """
    names, found = head.split(" | "), [line(each) for each in lines]
    rule = line("--:" if name.endswith(":") else "---" for name in names)
    shown = line(name.removesuffix(":") for name in names)
    return "\n".join([shown, rule.replace(" ", ""), *found]) if found else empty


def cell(text: str) -> str:
    """Text that does not end a table's cell, and shows no path of the machine."""
    plain = re.sub(r"(/[\w.+-]+){2,}", "…", text).replace("\n", " ")
    return plain.replace("|", "\\|").replace("<", "&lt;")


def without_numbers(said: str) -> str:
    """What was said without the numbers that differ from one time to the next."""
    return re.sub(r"\d+(\.\d+)?(e[-+]?\d+)?", "n", said)


def told(ratio: float, low: float, high: float) -> str:
    """A ratio of two times with its 95 % interval: ``1.87 (1.81–1.93)``."""
    return f"{ratio:.2f} ({low:.2f}–{high:.2f})"
