"""Why Dynamo ended a graph, or gave a frame up, with what helps."""

from __future__ import annotations

import ast
import contextlib
import dataclasses
import linecache
import traceback
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import torch_private
from dynamo_ext.capture.break_record import (
    graph_break,
    in_users_words,
    missing_name,
    parse_message,
)
from dynamo_ext.capture.source_lines import (
    calling_line,
    from_summaries,
    is_library,
    users_line,
)
from dynamo_ext.records import Fallback, GraphBreak, SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from dynamo_ext.capture.run_log import FrameEntry, Run
    from dynamo_ext.records import Report


LIMIT = "gb0039"
"""Torch's page on its recompile limit."""

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
_REMEDIES = {
    "RecompileLimitExceeded": WHAT_CHANGES,
    "BackendCompilerFailed": "The backend raised while it compiled; try another one.",
}


def graph_breaks(reasons: Iterable[Any], run: Run) -> Iterator[GraphBreak]:
    """Dynamo's ``GraphCompileReason`` objects as records."""
    for reason in reasons:
        stack = from_summaries(reason.user_stack, run.cell_file)
        text = in_users_words(reason.reason, run.cell_file)
        yield graph_break(text, _line(stack, run), stack)


def note_failure(entry: FrameEntry, metrics: Any, run: Run) -> None:
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
    if message.registry_id:
        found = graph_break(text, line, stack)
        if not any(b.reason == found.reason and b.line == found.line for b in entry.breaks):
            entry.breaks.append(found)
    remedy = message.hints[0] if message.hints else _REMEDIES.get(kind, "")
    if message.registry_id == LIMIT:
        remedy = _REMEDIES["RecompileLimitExceeded"]
    elif kind == "Unsupported" and (loop := _loop_around(entry, metrics)) is not None:
        leaves = _may_leave(loop, metrics.fail_user_frame_lineno)
        remedy = _LEAVES if leaves else _SPLIT
    # The break itself tells the rest.
    known = bool(message.registry_id)
    detail = message.reason if known else f"{message.reason} {message.explanation}".strip()
    entry.fallbacks.append(
        Fallback("capture", "frame", entry.id, "", kind, detail, remedy, line=line)
    )


def _line(stack: Sequence[SourceLine], run: Run) -> SourceLine | None:
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
    if not name:
        return report
    reason = missing_name(name)
    said = {*(f.reason for f in report.frames), *(b.reason for b in report.breaks)}
    if reason not in said:
        return report
    kept = [b for b in report.breaks if b.reason != reason]
    places = {id(b): index for index, b in enumerate(kept)}

    def moved(ended_by: int | None) -> int | None:
        return None if ended_by is None else places.get(id(report.breaks[ended_by]))

    return dataclasses.replace(
        report,
        breaks=tuple(kept),
        fallbacks=tuple(f for f in report.fallbacks if f.message != reason),
        graphs=tuple(dataclasses.replace(g, ended_by=moved(g.ended_by)) for g in report.graphs),
        # The error says it already.
        frames=tuple(
            dataclasses.replace(f, reason="") if f.reason == reason else f for f in report.frames
        ),
    )


def forget_on_the_way_to(error: BaseException | None) -> None:
    """Have Dynamo look again at the functions that an error went through: it skips them else."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        torch_private.forget_code(frame.f_code)


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
