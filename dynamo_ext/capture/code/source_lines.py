"""Where in the user's source something came from."""

import itertools
import linecache
import re
import sysconfig
import traceback
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import dynamo_ext
from dynamo_ext.records.common import SourceLine

_TRACE_LINE = re.compile(r'^\s*File "(?P<file>.+)", line (?P<line>\d+), in (?P<function>.+)$')
_LIBRARY = re.compile(r"[\\/](?:site|dist)-packages[\\/]")
_STANDARD = sysconfig.get_path("stdlib")
OURS = str(Path(dynamo_ext.__file__).parent)
"""As code objects have it: an environment may be reached by a symbolic link."""

_RESUMED = re.compile(r"\b(?:torch_dynamo_resume_in_)+(?P<name>.+?)(?:_at_\d+)+$")


_cell_of: Callable[[str], str] | None = None


def name_cells_by(cell_of: Callable[[str], str]) -> None:
    """Have lines of other cells say which; ``cell_of`` gives a file's cell, or an empty text."""
    global _cell_of  # noqa: PLW0603 - a process has one notebook, and lines are made everywhere
    _cell_of = cell_of


def original_function(name: str) -> str:
    """A function's own name, where Dynamo's resume functions are called after it."""
    return _RESUMED.sub(r"\g<name>", name)


def source_line(file: str, line: int, function: str, cell_file: str | None) -> SourceLine:
    """A line with its text, and whether it belongs to the cell called ``cell_file``."""
    code = linecache.getline(file, line).strip()
    in_cell = file == cell_file
    cell = _cell_of(file) if _cell_of and not in_cell else ""
    return SourceLine(file, line, original_function(function), code, in_cell, cell)


def line_of(stack: Iterable[Any], cell_file: str | None) -> SourceLine | None:
    """The ``users_line`` of such a stack, the only one that is read."""
    summaries = [each for each in stack if each.filename == cell_file] or [*stack]
    own = [each for each in summaries if not is_library(each.filename)] or summaries
    return next(iter(from_summaries(own[-1:], cell_file)), None)


def from_summaries(stack: Iterable[Any], cell_file: str | None) -> tuple[SourceLine, ...]:
    """``traceback.FrameSummary`` objects, outermost first, as lines."""
    return tuple(source_line(f.filename, f.lineno or 0, f.name, cell_file) for f in stack)


def from_trace_text(text: str | None, cell_file: str | None) -> tuple[SourceLine, ...]:
    """The frames of an FX node's ``stack_trace``, outermost first."""
    found = (_TRACE_LINE.match(line) for line in (text or "").splitlines())
    return tuple(
        source_line(m["file"], int(m["line"]), m["function"], cell_file) for m in found if m
    )


def users_line(stack: Sequence[SourceLine]) -> SourceLine | None:
    """The line a user would look at: the cell's, else the innermost outside of libraries."""
    for line in reversed(stack):
        if line.in_cell:
            return line
    own = [line for line in stack if not is_library(line.file)]
    return (own or stack)[-1] if stack else None


def calling_line(cell_file: str | None) -> SourceLine | None:
    """The user's line that this thread is at, where that is known: what it calls may be torch's."""
    for frame, line in traceback.walk_stack(None):
        code = frame.f_code
        if not is_users(code.co_filename):
            continue
        # What Dynamo puts into rewritten code has no place of its own, and passes for the line of
        # something else.
        column = next(itertools.islice(code.co_positions(), frame.f_lasti // 2, None))[2]
        if column is None:
            return None
        return source_line(code.co_filename, line, code.co_name, cell_file)
    return None


def is_library(file: str) -> bool:
    """Whether a file is Python's own or an installed package's."""
    return file.startswith((_STANDARD, "<frozen ")) or bool(_LIBRARY.search(file))


def is_users(file: str) -> bool:
    """Whether a file is neither a library's nor one of ours."""
    return not (file.startswith(OURS) or is_library(file))
