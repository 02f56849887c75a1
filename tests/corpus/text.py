"""What sessions print, made comparable: addresses, cell file names, the magic's own line.

Only what cannot be equal is touched. A line number inside a cell that ran under the magic is one
more than in the plain cell (two, were the magic two lines), so the plain session's are raised.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from tests.corpus.case import Case

_ADDRESS = re.compile(r"\b0x[0-9a-fA-F]{6,}\b")
_FILE = re.compile(r"<ipython-input-(\d+)-[0-9a-f]+>")
_PLACES = (
    re.compile(r"(Cell In\[(\d+)\], line )(\d+)"),
    re.compile(r"(<cell (\d+)>\"?, line )(\d+)"),
    re.compile(r"(<cell (\d+)>:)(\d+)"),
    re.compile(r"(<cell (\d+)>\"?, line \d+ to )(\d+)"),
)
# Where the shell, from Python 3.12 on, cannot divide a cell into tokens.
_UNREAD = re.compile(r"(File (?:\"<string>\", line |<string>:))(\d+)")
_HEADER = re.compile(r"^(?:Cell In\[(\d+)\], line |File )")
_NUMBERED = re.compile(r"^(?P<mark>-+> |\s+)(?P<line>\d+)(?P<code> .*|)$")
_CLOCK = re.compile(r"[\d.]+(?:e[+-]?\d+)? (?:ns|µs|us|μs|ms|s|min)\b")
_COUNTER = re.compile(r"^(Compiler\s*:.*|Parser\s*:.*)\n", re.MULTILINE)
_SPOKEN = re.compile(r"((?:detected at|on) line )(\d+)")
_FIRST_CELL = re.compile(r"Cell In\[(\d+)\]")
_SYNTAX = ("SyntaxError", "IndentationError", "TabError")
# IPython's own frames, which its printing of syntax errors and exception groups shows.
_IPYTHON = re.compile(
    r"^[ |]*File \"?\S*IPython/core/.*\n.*\n(?:[ |]*[~^]+\n)?(?:[ |]*\n)?", re.MULTILINE
)
# The warning IPython's own look at a plain cell prints, before the one of running it.
_LOOKED_AT = re.compile(r"^<>:\d+: SyntaxWarning: .*\n", re.MULTILINE)
FOREIGN = re.compile(
    r"dynamo_ext[/.\\]|torch[/.\\]_dynamo|torch[/.\\]_inductor|eval_with_key|__dynamo|torch[/.\\]fx[/.\\]"
)


@dataclass(frozen=True)
class Frame:
    """One frame of a printed traceback: its header, then ``(marked, line, code)``."""

    header: str
    lines: tuple[tuple[bool, int, str], ...]

    @property
    def in_cell(self) -> bool:
        return self.header.startswith("Cell In[")


@dataclass(frozen=True)
class Cleaner:
    """Makes one session's texts comparable with the other's.

    ``unread`` is the number of a cell that ended before it ran: a place in it may name no cell.
    """

    case: Case
    magic: bool
    unread: int = 0

    def shift(self, number: int) -> int:
        """How far lines of cell ``number`` move, to count as they do under the magic."""
        return 0 if self.magic or number not in self.case.magic_cells else self.case.offset

    def text(self, text: str) -> str:
        """A text without what is bound to differ."""
        text = _FILE.sub(
            r"<cell \1>", _ADDRESS.sub("0x…", _LOOKED_AT.sub("", _IPYTHON.sub("", text)))
        )
        for place in _PLACES:
            text = place.sub(lambda m: f"{m[1]}{int(m[3]) + self.shift(int(m[2]))}", text)
        if self.unread:
            text = _UNREAD.sub(lambda m: f"{m[1]}{int(m[2]) + self.shift(self.unread)}", text)
        if self.case.clock:
            text = _COUNTER.sub("", _CLOCK.sub("…", text))
        return text

    def syntax(self, error: SyntaxError) -> str:
        """The message, in which Python may speak of lines of the cell."""
        match = _FILE.fullmatch(error.filename or "")
        return self._speaking(error.msg, int(match[1]) if match else 0)

    def _speaking(self, message: str, number: int) -> str:
        return _SPOKEN.sub(lambda m: f"{m[1]}{int(m[2]) + self.shift(number)}", message)

    def output(self, output: tuple[Any, ...]) -> tuple[Any, ...]:
        """An output with its texts made comparable; errors become head, frames and end."""
        kind, *rest = output
        if kind == "error":
            outside, frames = self.traceback(rest[1])
            cell = _FIRST_CELL.search(rest[1])
            if rest[0] in _SYNTAX and cell:
                outside = tuple(self._speaking(line, int(cell[1])) for line in outside)
            return (kind, rest[0], outside, frames)
        return (kind, *(self._value(value) for value in rest))

    def _value(self, value: Any) -> Any:
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {key: self._value(item) for key, item in value.items()}
        return value

    def traceback(self, rendering: str) -> tuple[tuple[str, ...], tuple[Frame, ...]]:
        """A printed traceback as the lines outside any frame, and the frames in order."""
        rendering = _IPYTHON.sub("", rendering)
        outside: list[str] = []
        frames: list[Frame] = []
        header, lines, shift, in_magic_cell = "", [], 0, False

        def close() -> None:
            nonlocal header, lines
            if header:
                frames.append(Frame(header, tuple(lines)))
            header, lines = "", []

        for raw in rendering.split("\n"):
            match = _HEADER.match(raw)
            numbered = _NUMBERED.match(raw)
            if match:
                close()
                number = int(match[1] or 0)
                header, shift = self.text(raw), self.shift(number)
                in_magic_cell = self.magic and number in self.case.magic_cells
            elif header and numbered:
                line = int(numbered["line"]) + shift
                if in_magic_cell and self.case.offset and line <= self.case.offset:
                    continue  # the magic line itself, shown as context
                marked = numbered["mark"].startswith("-")
                lines.append((marked, line, numbered["code"].strip("\n").rstrip()))
            elif header and not raw.strip():
                close()
            elif header:
                lines.append((False, -1, self.text(raw)))
            else:
                outside.append(self.text(raw))
        close()
        return tuple(outside), tuple(frames)
