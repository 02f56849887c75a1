"""Why Dynamo ended a graph, or gave a frame up, with what helps."""

from __future__ import annotations

import ast
import contextlib
import linecache
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture.break_record import graph_break, in_users_words, parse_message
from dynamo_ext.capture.source_lines import from_summaries, users_line
from dynamo_ext.records import Fallback, GraphBreak, SourceLine

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from dynamo_ext.capture.run_log import FrameEntry, Run


LIMIT = "gb0039"
"""Torch's page on its recompile limit."""

_SPLIT = (
    "The loop around it keeps it from being split there: put the loop's body into a function, "
    "which is then compiled by itself."
)
WHAT_CHANGES = (
    "See Guards for what changes from run to run: keep a changing number in a tensor, and mark "
    "changing sizes with %%dynamo --dynamic."
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
        yield graph_break(text, users_line(stack), stack)


def note_failure(entry: FrameEntry, metrics: Any, run: Run) -> None:
    """Write into ``entry`` that its frame runs eagerly, and why (``CompilationMetrics``)."""
    text = in_users_words(metrics.fail_reason or metrics.fail_type, run.cell_file)
    message = parse_message(text)
    kind = metrics.fail_type.rsplit(".", 1)[-1]
    stack: tuple[SourceLine, ...] = ()
    if metrics.fail_user_frame_filename:
        file, number = metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno
        stack = from_summaries([FrameSummary(file, number, entry.name)], run.cell_file)
    line = users_line(stack)
    entry.outcome = "skipped" if message.registry_id else "failed"
    entry.reason = message.reason
    if message.registry_id:
        found = graph_break(text, line, stack)
        if not any(b.reason == found.reason and b.line == found.line for b in entry.breaks):
            entry.breaks.append(found)
    remedy = message.hints[0] if message.hints else _REMEDIES.get(kind, "")
    if message.registry_id == LIMIT:
        remedy = _REMEDIES["RecompileLimitExceeded"]
    elif kind == "Unsupported" and _is_in_loop(entry, metrics):
        remedy = _SPLIT
    # The break itself tells the rest.
    known = bool(message.registry_id)
    detail = message.reason if known else f"{message.reason} {message.explanation}".strip()
    entry.fallbacks.append(
        Fallback("capture", "frame", entry.id, "", kind, detail, remedy, line=line)
    )


def _is_in_loop(entry: FrameEntry, metrics: Any) -> bool:
    """Whether the frame's own loop is around the line that ended its capture."""
    if metrics.fail_user_frame_filename != entry.file:
        return False
    source = "".join(linecache.getlines(entry.file))
    with contextlib.suppress(SyntaxError):
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, (ast.For, ast.While)):
                last = node.end_lineno or node.lineno
                if node.lineno <= metrics.fail_user_frame_lineno <= last:
                    return True
    return False
