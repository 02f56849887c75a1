"""Where a graph breaks, in words: the line that splits it, and those that led there."""

import re

from dynamo_ext.formatting import is_other_cell
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import SourceLine

ON_PURPOSE = "gb0025"
"""Torch's page on calls of ``torch._dynamo.graph_break()``."""

_NOT_THE_USERS = re.compile(
    r"[\\/]lib[\\/]python3\.\d+[\\/](?!(?:site|dist)-packages)|(?:site|dist)-packages[\\/]torch[\\/]",
    re.IGNORECASE,
)

_PACKAGE = re.compile(r"[\\/](?:site|dist)-packages[\\/](?P<name>\w+)", re.IGNORECASE)


def package(line: SourceLine | None) -> str:
    """The installed package that a line is in, or an empty text: its users cannot change it."""
    found = _PACKAGE.search(line.file) if line is not None else None
    return found["name"] if found else ""


def is_optimizers(line: SourceLine | None) -> bool:
    """Whether a line is of one of torch's optimizers."""
    return line is not None and package(line) == "torch" and "optim" in line.file


def in_package(graph_break: GraphBreak) -> str:
    """The package, other than torch, whose own code splits the graph, or an empty text."""
    return "" if is_torchs_own(graph_break) else package(origin(graph_break))


def origin(graph_break: GraphBreak) -> SourceLine | None:
    """The line that splits the graph: the innermost outside of torch; ``line`` may only call it."""
    own = (line for line in reversed(graph_break.stack) if not _NOT_THE_USERS.search(line.file))
    return next(own, graph_break.line)


def callers(graph_break: GraphBreak) -> tuple[SourceLine, ...]:
    """The user's lines that led to ``origin``, the nearest first."""
    lines = reversed(graph_break.stack)
    return tuple(line for line in lines if not _NOT_THE_USERS.search(line.file))[1:]


def is_torchs_own(graph_break: GraphBreak) -> bool:
    """Whether torch stops there by itself: its own optimizers call ``graph_break()``, for one."""
    if graph_break.registry_id == ON_PURPOSE and is_in_torch(graph_break):
        return True
    # A line of the user's may be known to have led there, from outside of what was captured.
    lines = graph_break.stack or ([graph_break.line] if graph_break.line is not None else [])
    return bool(lines) and all(_NOT_THE_USERS.search(line.file) for line in lines)


def is_in_torch(graph_break: GraphBreak) -> bool:
    """Whether the innermost line is torch's own, whatever line of the user's led there."""
    return bool(graph_break.stack and _NOT_THE_USERS.search(graph_break.stack[-1].file))


def where(graph_break: GraphBreak) -> str:
    """``line 7``, ``line 3 of `f`, called at line 7,`` or ``line 12 of `step` in model.py``."""
    line, called = origin(graph_break), graph_break.line
    at = line_in_words(line)
    if line is None or line.in_cell or called is None or not called.in_cell:
        return at
    return f"{at}, called at line {called.line},"


def line_in_words(line: SourceLine | None) -> str:
    """``line 7`` of the cell, ``line 3 of `f` in In[5]``, ``line 12 of `f` in model.py``."""
    if line is None or not line.line:
        return ""
    if line.in_cell:
        return f"line {line.line}"
    name = line.file.replace("\\", "/").rsplit("/", 1)[-1]
    of = f" of `{line.function}`" if line.function.isidentifier() else ""
    if line.cell:
        return f"line {line.line}{of} in {line.cell}"
    if line.file.startswith("<") or is_other_cell(line.file):
        return f"line {line.line}{of or ' of another cell'}"
    return f"line {line.line}{of} in {name}"
