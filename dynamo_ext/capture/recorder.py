"""Listens while code runs under Dynamo: frames, graphs, guards, breaks, recompiles, bytecode."""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
import time
import weakref
from traceback import FrameSummary
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import kept_out, torch_lists, torch_numbers, torch_private, torch_trace
from dynamo_ext.capture.block import NotWholeError, is_plain
from dynamo_ext.capture.division import divide, divide_turn, note_division
from dynamo_ext.capture.given_up import graph_breaks, note_failure
from dynamo_ext.capture.guard_record import guard_records
from dynamo_ext.capture.recompile_record import recompile_record
from dynamo_ext.capture.replaced_methods import note_classes
from dynamo_ext.capture.run_log import FrameEntry, Run, active_run
from dynamo_ext.capture.source_lines import from_summaries, original_function, users_line
from dynamo_ext.records import Fallback

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator

    from dynamo_ext.capture.hidden_names import HiddenNames


class _Compiling(threading.local):
    """The frames being compiled on this thread, innermost last."""

    def __init__(self) -> None:
        self.stack: list[tuple[FrameEntry, Any]] = []


_compiling = _Compiling()


def frame_being_compiled() -> FrameEntry | None:
    """The entry of the frame that Dynamo is compiling now through a ``FrameListener``."""
    return _compiling.stack[-1][0] if _compiling.stack else None


def _note_bytecode(original: types.CodeType, rewritten: types.CodeType) -> None:
    if not _compiling.stack:
        return
    entry, frame = _compiling.stack[-1]
    for name in rewritten.co_names:
        resume = frame.f_globals.get(name) if name.startswith("__resume_at") else None
        if resume is not None:
            torch_private.always_trace(resume.__code__)
    if entry.code() is original:
        entry.rewritten = weakref.ref(rewritten)
        key = id(rewritten)
        gone = weakref.ref(rewritten, lambda _: _entry_of_code.pop(key, None))
        _entry_of_code[key] = (gone, entry)


# By identity: code objects compare by content, and two resume functions may be equal.
_entry_of_code: dict[int, tuple[weakref.ref[types.CodeType], FrameEntry]] = {}


def entry_of_rewritten(code: types.CodeType) -> FrameEntry | None:
    """The frame whose rewritten code this is."""
    found = _entry_of_code.get(id(code))
    return found[1] if found is not None and found[0]() is code else None


class FrameListener:
    """Dynamo's frame callback with ears: times each compile and keeps what it said.

    ``reuse`` is the callback that takes its place where torch's stance is that nothing new is
    compiled.
    """

    def __init__(
        self,
        callback: Any,
        compiler: Any,
        *,
        reuse: Any,
        fullgraph: bool = False,
        names: HiddenNames | None = None,
    ) -> None:
        self._callback = callback
        self._compiler = compiler
        self._reuse = reuse
        self._fullgraph = fullgraph
        self._names = names
        torch_private.backend_identity(self, compiler)

    def __call__(self, frame: Any, cache: Any, state: Any) -> Any:
        """Compile one frame, unless torch was told not to (the signature is Dynamo's)."""
        # What compiles while a comparison times it has nobody to listen, and all else is the same.
        run = active_run() or Run()
        code = frame.f_code
        if is_plain(code):
            return torch_private.skip_frame()
        if torch_private.is_library_code(code):
            return self._callback(frame, cache, state)
        if instead := self._kept_out(run):
            return instead(frame, cache, state)
        return self._compile(frame, cache, state, run)

    def _kept_out(self, run: Run) -> Callable[[Any, Any, Any], Any] | None:
        """The callback in this one's place where nothing is to be compiled; and record why."""
        if switch := torch_private.switched_off(self._callback):
            run.fallbacks[kept_out.switched_off(switch)] = None
            return torch_private.plainly_now
        if who := torch_private.onlooker():
            run.fallbacks[kept_out.looked_at(who)] = None
            return torch_private.plainly_now
        stance = torch_private.stance()
        if stance == "eager_on_recompile":
            run.fallbacks[kept_out.REUSED_ONLY] = None
            return self._reuse  # type: ignore[no-any-return]
        if stance == "fail_on_recompile":
            return functools.partial(torch_private.refuse_recompile, self)
        return None

    def _compile(self, frame: Any, cache: Any, state: Any, run: Run) -> Any:
        """Compile one frame and record it."""
        code = frame.f_code
        entry = FrameEntry(
            "", original_function(code.co_name), code.co_filename, code.co_firstlineno,
            weakref.ref(code),
            code.co_name,
        )  # fmt: skip
        breaks, metrics = torch_private.graph_break_count(), torch_private.latest_metrics()
        _compiling.stack.append((entry, frame))
        run.told(f"capturing {entry.title}")
        started = time.perf_counter()
        divided = False
        try:
            _, reasons = torch_private.recompile_reasons(frame, self._compiler)
            divide_turn(code, reasons)
            torch_numbers.note_varying(code, reasons)
            torch_lists.note_growing(code, reasons)
            with self._surroundings(frame.f_globals):
                result = self._callback(frame, cache, state)
            if not self._fullgraph:
                divide(entry, metrics, torch_private.graph_breaks(breaks))
        except NotWholeError as why:
            divided = True
            why.divide()
            note_division(why, entry, torch_private.graph_breaks(breaks), run)
            raise
        except Exception as error:
            if self._fullgraph:
                if not torch_private.is_users_own(error):
                    raise
                run.refused = error
            # The user's own error, met while tracing: eager raises it again, from its line.
            entry.outcome, entry.reason = "failed", f"{type(error).__name__}: {error}"
            result = torch_private.run_eagerly_now(callees_too=False)
        finally:
            _compiling.stack.pop()
            run.told("")
            entry.seconds = time.perf_counter() - started
            entry.traced = torch_trace.take_traced()
            torch_private.unmark_static(entry.marked)
            newest = torch_private.latest_metrics()
            if (divided or newest is not metrics) and not _compiling.stack:
                run.compile_seconds += entry.seconds
            if newest is not metrics and not divided:
                _finish(entry, newest, torch_private.graph_breaks(breaks), run)
        # Observing must not cost the user the compiled code.
        with contextlib.suppress(Exception):
            entry.guard_seconds = torch_private.guard_check_seconds(result, frame)
        return result

    @contextlib.contextmanager
    def _surroundings(self, namespace: dict[str, Any]) -> Iterator[None]:
        """What holds while a frame compiles, and only then: a compiled call pays for none of it."""
        hook = torch_private.on_bytecode(_note_bytecode)
        try:
            with (
                torch_private.failures_become_eager(fullgraph=self._fullgraph),
                torch_trace.traced_our_way(),
                torch_private.quiet_logs(),
                self._names.watching(namespace) if self._names else contextlib.nullcontext(),
            ):
                yield
        finally:
            hook.remove()


def _finish(entry: FrameEntry, metrics: Any, breaks: Any, run: Run) -> None:
    entry.id = str(metrics.compile_id)
    entry.breaks += graph_breaks(breaks, run)
    if metrics.fail_type:
        note_failure(entry, metrics, run)
    elif entry.outcome == "failed":
        kind, _, text = entry.reason.partition(": ")
        entry.fallbacks.append(Fallback("capture", "frame", entry.id, "", kind, text, ""))
    elif entry.rewritten is None:
        entry.outcome, entry.reason = "skipped", "nothing in it can be compiled"
    run.compiled.append(entry)


def note_guards(guards: Any) -> None:
    """Dynamo's ``guard_export_fn``."""
    entry, run = frame_being_compiled(), active_run()
    if entry is not None:
        frame = torch_private.current_compile_id()
        cell_file = run.cell_file if run else None
        named = _argument_names(_compiling.stack[-1][1])
        note_classes(_compiling.stack[-1][1].f_code, guards)
        entry.guards = guard_records(frame, guards, cell_file, entry.input_shapes, named)


def note_guard_failure(failure: Any) -> None:
    """Dynamo's ``guard_fail_fn``: called for a frame that is compiled again."""
    run = active_run()
    if run is None or not _compiling.stack:
        return
    entry, frame = _compiling.stack[-1]
    # Called once for each compiled version that did not fit, the newest first.
    # Another backend's code is no version that could have fitted.
    if entry.missed or "BACKEND_MATCH" in failure.reason:
        return
    entry.missed = True
    note_misses(run, frame, [failure.reason], prevented=False)


def note_misses(run: Run, frame: Any, reasons: list[str], *, prevented: bool) -> None:
    """Record why no compiled version of ``frame`` fits."""
    scopes = {"L": frame.f_locals, "G": frame.f_globals}
    name = original_function(frame.f_code.co_name)
    line = users_line(
        from_summaries(
            [FrameSummary(frame.f_code.co_filename, frame.f_code.co_firstlineno, name)],
            run.cell_file,
        )
    )
    frame_id = torch_private.current_compile_id()
    for reason in reasons[:1]:
        run.add_recompile(
            recompile_record(
                frame_id,
                name,
                reason,
                scopes,
                line,
                prevented=prevented,
                cell_file=run.cell_file,
                arguments=_argument_names(frame),
            )
        )


def _argument_names(frame: Any) -> tuple[str, ...]:
    """The names of a wrapped function's or module's arguments, in their order."""
    called = torch_private.wrapped_by(frame)
    with contextlib.suppress(TypeError, ValueError):
        return tuple(inspect.signature(getattr(called, "forward", called)).parameters)  # type: ignore[arg-type]
    return ()
