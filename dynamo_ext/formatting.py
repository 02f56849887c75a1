"""Numbers, places and lists in the words that reports, advice and differences share."""

import re
from collections.abc import Sequence
from pathlib import PurePath

from dynamo_ext.records.common import SourceLine

_OTHER_CELL = re.compile(r"ipykernel_\d+[/\\]\d+\.py$|^<ipython-input")
# A pattern that begins with a set of characters is searched for ten times as fast as alternatives.
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f](?:(?<=\x1b)\[[0-9;]*[A-Za-z])?")
_MINUTE = 60
_TWO_DIGITS, _THREE_DIGITS = 10, 100


def seconds(value: float) -> str:
    """Write a duration with three digits and the unit that suits it (``1.23 s``, ``45.6 ms``)."""
    if value <= 0:
        return "0 s"
    if value >= _MINUTE:
        whole = round(value)
        return f"{whole // _MINUTE} min {whole % _MINUTE} s"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if value >= scale:
            number = value / scale
            digits = 2 if number < _TWO_DIGITS else 1 if number < _THREE_DIGITS else 0
            return f"{number:.{digits}f} {unit}"
    return "under 1 µs"


def percent(share: float) -> str:
    """Write a share of 1; what is something is not shown as nothing."""
    shown = f"{share:.0%}"
    return "<1%" if share > 0 and shown == "0%" else shown


def count(number: int, noun: str, plural: str = "") -> str:
    """Write a number and its noun (``1 graph``, ``1,500 operations``)."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"


def article(noun: str) -> str:
    """``noun`` with its article (``an int64``, ``a uint8``)."""
    vowel = noun[:1].lower() in tuple("aeio") or noun.startswith(("un", "Un"))
    return f"{'an' if vowel and not noun.startswith(('uni', 'Uni')) else 'a'} {noun}"


def listing(items: Sequence[str], most: int | None = None, more: str = "more") -> str:
    """Items as prose: ``a``, ``a and b``, ``a, b and c``; over ``most``, ``a, b and 4 more``."""
    if most is not None and len(items) > most:
        items = [*items[:most], f"{len(items) - most:,} {more}"]
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def sentence(text: str) -> str:
    """``text`` on one line, with a full stop unless it ends in one already; may be empty."""
    text = " ".join(text.split())
    return text if not text or text[-1] in ".!?…" else f"{text}."


def is_command(text: str) -> bool:
    """Whether a remedy is a command to type, which must be kept as it is."""
    return text.lstrip().startswith(("pip ", "%pip ", "python -m ", "conda "))


def remedy(text: str, lead: str = "") -> str:
    """A remedy as a sentence; a command as it is typed, after ``lead``."""
    return f"{lead}{text}" if is_command(text) else sentence(text)


def clip(text: str, limit: int) -> str:
    """``text`` cut to ``limit`` characters, with an ellipsis where some are left out."""
    return text if len(text) <= limit else text[: limit - 1].rstrip() + "…"


def printable(text: str) -> str:
    """``text`` without colour codes and other control characters (tabs and newlines stay)."""
    return _CONTROL.sub("", text.replace("\r\n", "\n"))


def function_name(name: str) -> str:
    """A function as a reader knows it: Python calls the statements of a cell ``<module>``."""
    return "the cell" if name == "<module>" else name


def is_other_cell(file: str) -> bool:
    """Whether a file's name is one that a kernel gave to a cell."""
    return bool(_OTHER_CELL.search(file))


def place(line: SourceLine | None) -> str:
    """Where a line is, as a reader would say it: ``line 3``, ``model.py:12``; or empty."""
    if line is None:
        return ""
    if line.in_cell:
        return f"line {line.line}"
    if line.cell or is_other_cell(line.file):
        return f"{line.cell or 'another cell'}:{line.line}"
    return f"{PurePath(line.file).name or line.file}:{line.line}"


def step_to(key: object, place: int) -> str:
    """A mapping's value in a path: ``['lr']``, or ``[key 2]`` where its key is an object or long.

    The beginnings of two keys may be equal.
    """
    text = repr(key) if isinstance(key, (str, int, float, bytes, type(None))) else ""
    return f"[{text}]" if 0 < len(text) <= _LONGEST_KEY else f"[key {place}]"


_LONGEST_KEY = 100
