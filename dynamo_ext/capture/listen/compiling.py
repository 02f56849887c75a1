"""The frame that is being compiled, with what Dynamo reports: guards, failed ones, bytecode."""

import contextlib
import dataclasses
import inspect
import operator
import types
import weakref
from collections.abc import MutableMapping, Sequence
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.frame_looks import looker_from
from dynamo_ext.capture.code.replaced_methods import note_classes
from dynamo_ext.capture.code.source_lines import original_function, source_line
from dynamo_ext.capture.events.guards import guard_record
from dynamo_ext.capture.events.recompiles import recompile_record
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog, active_run
from dynamo_ext.capture.torch_private import compile_metrics, traced_frames
from dynamo_ext.capture.torch_private.patches import calls
from dynamo_ext.records.capture import Guard

frames: list[tuple[FrameEntry, Any]] = []
"""The frames being compiled, innermost last: one thread compiles at a time (``compile_lock``)."""


def frame_being_compiled() -> FrameEntry | None:
    """The entry of the frame that Dynamo is compiling now through a ``FrameListener``."""
    return frames[-1][0] if frames else None


def note_break(stack: Sequence[Any]) -> None:
    """Raise ``StaysPythonError`` where the frame being compiled is not to be divided."""
    if frames:
        calls.keep_names(looker_from(frames[-1][1]), stack)


def note_bytecode(code: types.CodeType, new_code: types.CodeType) -> None:
    """Remember what code became, for ``entry_of_rewritten``, and trace what resumes it."""
    if not frames:
        return
    entry, frame = frames[-1]
    for name in new_code.co_names:
        resume = frame.f_globals.get(name) if name.startswith("__resume_at") else None
        if resume is not None:
            traced_frames.always_trace(resume.__code__)
    if entry.code() is code:
        entry.rewritten = weakref.ref(new_code)
        _entry_of_code[new_code] = entry


# By identity: code objects compare by content, and two resume functions may be equal.
_entry_of_code: MutableMapping[types.CodeType, FrameEntry] = WeakIdKeyDictionary()


def entry_of_rewritten(code: types.CodeType) -> FrameEntry | None:
    """The frame whose rewritten code this is."""
    return _entry_of_code.get(code)


def note_guards(guards: Any) -> None:
    """Dynamo's ``guard_export_fn``."""
    entry, run = frame_being_compiled(), active_run()
    if entry is not None:
        frame = compile_metrics.current_compile_id()
        cell_file = run.cell_file if run else None
        named = _argument_names(frames[-1][1])
        note_classes(frames[-1][1].f_code, guards)
        distinct: dict[Guard, Guard] = {}
        # Comparing two guards would make the keys of both again.
        for each in sorted(guards, key=operator.methodcaller("sort_key")):
            record = guard_record(frame, each, cell_file, entry.input_shapes, named)
            distinct.setdefault(dataclasses.replace(record, line=None), record)
        entry.guards = tuple(distinct.values())


def note_guard_failure(failure: Any) -> None:
    """Dynamo's ``guard_fail_fn``: called for a frame that is compiled again."""
    run = active_run()
    if run is None or not frames:
        return
    entry, frame = frames[-1]
    # Called once for each compiled version that did not fit, the newest first.
    # Another backend's code is not a version that could have fitted.
    if entry.guard_failed or "BACKEND_MATCH" in failure.reason:
        return
    entry.guard_failed = True
    note_miss(run, frame, failure.reason, entry)


def note_miss(run: RunLog, frame: Any, reason: str, entry: FrameEntry | None) -> None:
    """Record why no compiled version of ``frame`` fits; ``entry`` is it where it is compiled."""
    code = frame.f_code
    name = original_function(code.co_name)
    run.add_recompile(
        recompile_record(
            compile_metrics.current_compile_id(),
            name,
            reason,
            {"L": frame.f_locals, "G": frame.f_globals},
            source_line(code.co_filename, code.co_firstlineno, name, run.cell_file),
            prevented=entry is None,
            cell_file=run.cell_file,
            arguments=_argument_names(frame),
            resumed=name != code.co_name,
        ),
        entry,
    )


def _argument_names(frame: Any) -> tuple[str, ...]:
    """The names of a wrapped function's or module's arguments, in their order."""
    called = traced_frames.wrapped_by(frame)
    with contextlib.suppress(TypeError, ValueError):
        return tuple(inspect.signature(getattr(called, "forward", called)).parameters)  # type: ignore[arg-type]
    return ()
