"""Why Dynamo ended a graph, or gave a frame up, with what helps."""

import traceback
from collections.abc import Iterable, Iterator, Sequence
from traceback import FrameSummary
from typing import Any

from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.report import source_lines
from dynamo_ext.capture.report.breaks import MISSING_NAME, graph_break, in_users_words
from dynamo_ext.capture.report.surroundings import leaves, loop_around
from dynamo_ext.capture.torch_private import code_cache
from dynamo_ext.formatting import sentence
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.report import FallbackCause

LIMIT = "gb0039"
"""Torch's page on its recompile limit."""

TOO_LATE = ", as from this one: this call had begun before that was known"
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
        stack = source_lines.from_summaries(reason.user_stack, run.cell_file)
        text = in_users_words(reason.reason, run.cell_file)
        yield graph_break(text, _line(stack, run), stack)


def note_failure(entry: FrameEntry, metrics: Any, run: RunLog) -> None:
    """Write into ``entry`` that its frame runs eagerly, and why (``CompilationMetrics``)."""
    kind = metrics.fail_type.rsplit(".", 1)[-1]
    stack: tuple[SourceLine, ...] = ()
    if metrics.fail_user_frame_filename:
        file, number = metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno
        stack = source_lines.from_summaries([FrameSummary(file, number, entry.name)], run.cell_file)
    text = in_users_words(metrics.fail_reason or metrics.fail_type, run.cell_file)
    found = entry.given_up_by = graph_break(text, _line(stack, run), stack)
    entry.outcome = "skipped" if found.registry_id else "failed"
    entry.reason = detail = found.reason
    # The break itself has the rest.
    if found.registry_id:
        if not any(b.what == found.what and b.line == found.line for b in entry.breaks):
            entry.breaks.append(found)
    elif found.explanation:
        detail = f"{sentence(detail)} {found.explanation}"
    otherwise = _OTHER_BACKEND if kind == "BackendCompilerFailed" else ""
    remedy = found.hints[0] if found.hints else otherwise
    cause: FallbackCause = ""
    if found.registry_id == LIMIT or kind in _LIMITS:
        remedy, cause = WHAT_CHANGES, "recompile_limit"
    elif kind == "Unsupported" and metrics.fail_user_frame_filename == entry.file:
        number = metrics.fail_user_frame_lineno
        if (loop := loop_around(entry.file, number)) is not None:
            remedy, cause = _LEAVES if leaves(loop, number) else _SPLIT, "loop"
    entry.fell_back(kind, detail, remedy, line=found.line, cause=cause)


CALLED = "What it calls runs in Python, too, but for modules and your own functions"
"""Of a library's function."""


def note_python(entry: FrameEntry, why: Any, run: RunLog) -> None:
    """Write into ``entry`` that its frame stays Python, and why (``StaysPythonError``)."""
    entry.outcome, entry.reason = "eager" if why.once else "skipped", why.message
    if entry.code_name != entry.name and not why.once:
        entry.reason += TOO_LATE
    line = _line(source_lines.from_summaries(why.stack, run.cell_file), run)
    library = source_lines.is_library(entry.file)
    if library and not why.once:
        entry.reason += f". {CALLED}"
    remedy = "" if library else why.remedy
    entry.fell_back("", entry.reason, remedy, line=line, harmless=why.once or library)


def _line(stack: Sequence[SourceLine], run: RunLog) -> SourceLine | None:
    line = source_lines.users_line(stack)
    if line is None or line.in_cell or not source_lines.is_library(line.file):
        return line
    return source_lines.calling_line(run.cell_file) or line


def leave_out_missing_name(run: RunLog, error: BaseException | None) -> bool:
    """Drop what Dynamo recorded of a name whose absence ended the run; whether there was any.

    Eager stops at that name as well: Dynamo split nothing there. Where the code catches the
    ``NameError`` and goes on, the record keeps both.
    """
    name = error.name if isinstance(error, NameError) else None

    def others(breaks: Iterable[GraphBreak]) -> list[GraphBreak]:
        return [b for b in breaks if not name or (b.registry_id, b.name) != (MISSING_NAME, name)]

    found = [*run.condition_breaks] != (kept := others(run.condition_breaks))
    run.condition_breaks = dict.fromkeys(kept)
    for entry in run.compiled:
        if len(kept := others(entry.breaks)) < len(entry.breaks):
            found, entry.breaks = True, kept
            if entry.given_up_by is not None and not others([entry.given_up_by]):
                # The error says it already.
                entry.fallbacks, entry.reason = [], ""
    return found


def forget_on_the_way_to(error: BaseException | None) -> None:
    """Have Dynamo look again at the functions that an error went through: it skips them else."""
    for frame, _ in traceback.walk_tb(error.__traceback__ if error else None):
        code_cache.forget_code(frame.f_code)
