"""Why Dynamo ended a graph, or gave a frame up, with what helps."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import linecache
import traceback
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture.report.breaks import (
    MISSING_NAME,
    graph_break,
    in_users_words,
    parse_message,
)
from dynamo_ext.capture.report.source_lines import (
    calling_line,
    from_summaries,
    is_library,
    users_line,
)
from dynamo_ext.capture.torch_private import code_cache
from dynamo_ext.formatting import article, sentence
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.report import Fallback, GraphBreak

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
    from dynamo_ext.records.report import FallbackCause, Report


LIMIT = "gb0039"
"""Torch's page on its recompile limit."""

_INITIALISED = "Nothing needs to be done: the next call is captured."
"""Of a frame whose lazy modules are initialised by now."""

_SPLIT = (
    "The loop around it keeps it from being split there: put the loop's body into a function, "
    "which is then compiled by itself."
)
WHAT_CHANGES = (
    "Keep a number that changes from run to run in a tensor, and mark changing sizes with "
    "%%dynamo --dynamic."
)
_LEAVES = (
    "The loop may end early there, so it stays Python; the functions that it calls are compiled "
    "by themselves."
)
_LIMITS = frozenset({"RecompileLimitExceeded", "FailOnRecompileLimitHit"})
"""Torch's names of the error without its page."""

_OTHER_BACKEND = "The backend raised while it compiled; try another one."


def graph_breaks(reasons: Iterable[Any], run: RunLog) -> Iterator[GraphBreak]:
    """Dynamo's ``GraphCompileReason`` objects as records."""
    for reason in reasons:
        stack = from_summaries(reason.user_stack, run.cell_file)
        text = in_users_words(reason.reason, run.cell_file)
        yield graph_break(text, _line(stack, run), stack)


def note_failure(entry: FrameEntry, metrics: Any, run: RunLog) -> None:
    """Write into ``entry`` that its frame runs eagerly, and why (``CompilationMetrics``)."""
    text = in_users_words(metrics.fail_reason or metrics.fail_type, run.cell_file)
    message = parse_message(text)
    kind = metrics.fail_type.rsplit(".", 1)[-1]
    stack: tuple[SourceLine, ...] = ()
    if metrics.fail_user_frame_filename:
        file, number = metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno
        stack = from_summaries([FrameSummary(file, number, entry.name)], run.cell_file)
    line = _line(stack, run)
    entry.outcome = "skipped" if message.registry_id else "failed"
    entry.reason = message.reason
    found = entry.given_up_by = graph_break(text, line, stack)
    if message.registry_id and not any(
        b.what == found.what and b.line == found.line for b in entry.breaks
    ):
        entry.breaks.append(found)
    otherwise = _OTHER_BACKEND if kind == "BackendCompilerFailed" else ""
    remedy = message.hints[0] if message.hints else otherwise
    cause: FallbackCause = ""
    if message.registry_id == LIMIT or kind in _LIMITS:
        remedy, cause = WHAT_CHANGES, "recompile_limit"
    elif kind == "Unsupported" and (loop := _loop_around(entry, metrics)) is not None:
        leaves = _may_leave(loop, metrics.fail_user_frame_lineno)
        remedy, cause = _LEAVES if leaves else _SPLIT, "loop"
    # The break itself tells the rest.
    known = bool(message.registry_id)
    detail = message.reason
    if message.explanation and not known:
        detail = f"{sentence(detail)} {message.explanation}"
    entry.fallbacks.append(
        Fallback("capture", "frame", entry.id, "", kind, detail, remedy, line=line, cause=cause)
    )


def note_lazy(entry: FrameEntry, module: str, stack: Sequence[Any], run: RunLog) -> None:
    """Write into ``entry`` that its frame runs as plain Python this time, for a lazy module."""
    message = (
        f"This is the first call of {article(module)}, whose parameters Dynamo would initialise "
        "before the code above the call has run, and with other random numbers"
    )
    entry.outcome, entry.reason = "eager", message
    line = _line(from_summaries(stack, run.cell_file), run)
    entry.fallbacks.append(
        Fallback(
            "capture", "frame", entry.id, "", "", message, _INITIALISED, line=line, harmless=True
        )
    )


def _line(stack: Sequence[SourceLine], run: RunLog) -> SourceLine | None:
    """The user's line on the stack of what was captured, or the one that led to it."""
    line = users_line(stack)
    if line is None or line.in_cell or not is_library(line.file):
        return line
    return calling_line(run.cell_file) or line


def without_missing_name(report: Report, error: BaseException | None) -> Report:
    """The report without what Dynamo said of a name whose absence ended the run.

    Eager stops at that name as well: Dynamo split nothing there and left nothing to eager. Where
    the code catches the ``NameError`` and goes on, the report keeps both.
    """
    name = error.name if isinstance(error, NameError) else None
    gone = {
        index
        for index, each in enumerate(report.breaks)
        if name and each.registry_id == MISSING_NAME and each.name == name
    }
    if not gone:
        return report
    kept = [index for index in range(len(report.breaks)) if index not in gone]
    places = {index: place for place, index in enumerate(kept)}

    def moved(index: int | None) -> int | None:
        return None if index is None else places.get(index)

    told = {f.subject for f in report.fallbacks if f.break_index in gone}
    return dataclasses.replace(
        report,
        breaks=tuple(report.breaks[index] for index in kept),
        fallbacks=tuple(
            dataclasses.replace(f, break_index=moved(f.break_index))
            for f in report.fallbacks
            if f.break_index not in gone
        ),
        graphs=tuple(dataclasses.replace(g, ended_by=moved(g.ended_by)) for g in report.graphs),
        # The error says it already.
        frames=tuple(
            dataclasses.replace(f, reason="") if f.id in told else f for f in report.frames
        ),
    )


def forget_on_the_way_to(error: BaseException | None) -> None:
    """Have Dynamo look again at the functions that an error went through: it skips them else."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        code_cache.forget_code(frame.f_code)


def _loop_around(entry: FrameEntry, metrics: Any) -> ast.For | ast.While | None:
    """The frame's own loop around the line that ended its capture, the outermost one."""
    if metrics.fail_user_frame_filename != entry.file:
        return None
    source = "".join(linecache.getlines(entry.file))
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.For, ast.While)):
                last = node.end_lineno or node.lineno
                if node.lineno <= metrics.fail_user_frame_lineno <= last:
                    return node
    return None


def _may_leave(loop: ast.For | ast.While, line: int) -> bool:
    """Whether what is decided at ``line`` is whether the loop goes on: no function can do that."""
    asked = [n for n in ast.walk(loop) if isinstance(n, (ast.If, ast.While))]
    leaving = (ast.Break, ast.Continue, ast.Return)
    return any(
        isinstance(node, ast.While) or any(isinstance(n, leaving) for n in ast.walk(node))
        for node in asked
        if node.lineno <= line <= (node.test.end_lineno or node.lineno)
    )
