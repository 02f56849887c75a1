"""When a block of a cell is divided: asked before, while and after Dynamo looks at it."""

import types
from collections.abc import Sequence
from typing import Any

from dynamo_ext.capture.code.block import SplitBlockError, block_of
from dynamo_ext.capture.code.source_lines import source_line
from dynamo_ext.capture.listen.capture_failures import LIMIT, WHAT_CHANGES, graph_breaks
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog
from dynamo_ext.capture.torch_private import code_cache, compile_metrics


def divide(entry: FrameEntry, before: Any, breaks: Sequence[Any]) -> None:
    """Raise where Dynamo has given up a block that can be divided, or stops short of its loop."""
    block, metrics = block_of(entry.code()), compile_metrics.latest_metrics()
    if block is None or metrics is before:
        return
    if not metrics.fail_type:
        # The compiler has asked already, unless there was nothing to compile before the break.
        if breaks and not entry.graphs:
            block.split_at_break(breaks[0].user_stack)
    elif metrics.fail_type.endswith(_GIVEN_UP) and LIMIT not in metrics.fail_reason:
        own = metrics.fail_user_frame_filename == entry.file
        stack = breaks[-1].user_stack if breaks else ()
        near = next((s.lineno for s in stack if s.filename == entry.file), None)
        block.split_at(metrics.fail_user_frame_lineno if own else None, near)


def note_division(
    why: SplitBlockError, entry: FrameEntry, breaks: Sequence[Any], run: RunLog
) -> None:
    """Record what the parts of a divided block will not tell themselves."""
    block = why.block
    if block.is_condition(why.line):
        block.condition_breaks = tuple(graph_breaks(breaks, run))
    if not block.plain:
        return
    entry.outcome, entry.reason = "skipped", "nothing in it can be compiled"
    entry.id, entry.turn = f"line {block.first_line}", block.first_line
    if block.has_graphs:
        entry.reason = _LIMIT_MET
        line = source_line(entry.file, block.first_line, entry.name, run.cell_file)
        entry.fell_back("Recompile", _LIMIT_MET, WHAT_CHANGES, line=line, cause="recompile_limit")
    run.compiled.append(entry)


def divide_turn(frame: types.FrameType, compiler: Any) -> None:
    """Raise where a turn of a loop would be recompiled for what changes with each turn."""
    block = block_of(frame.f_code)
    if block is None or not block.is_loop_body:
        return
    _, reasons = code_cache.recompile_reasons(frame, compiler)
    if reasons:
        block.split_if_empty()
    if len(reasons) >= code_cache.recompile_limit():
        raise SplitBlockError(block, None)


_GIVEN_UP = ("Unsupported", "RecursionError")
"""Ends of the names of errors that are about a statement, and of no concern to the others."""
_LIMIT_MET = "This turn of the loop was compiled as often as Dynamo's recompile limit allows."
