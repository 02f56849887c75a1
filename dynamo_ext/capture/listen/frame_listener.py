"""Dynamo's frame callback while code runs: what is compiled, what stays Python, and the record."""

import contextlib
import functools
import sys
import time
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from dynamo_ext.capture.code.block import SplitBlockError, block_of, is_plain
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.replaced_methods import guard_watched, watch_changed
from dynamo_ext.capture.code.source_lines import original_function
from dynamo_ext.capture.events import capture_disabled
from dynamo_ext.capture.listen import (
    capture_failures,
    compiling,
    left_before,
    new_optimizers,
    python_libraries,
)
from dynamo_ext.capture.listen.reuse_listener import ReuseListener
from dynamo_ext.capture.listen.run_log import FrameEntry, RunLog, active_run
from dynamo_ext.capture.listen.split_block import divide, divide_turn, note_division
from dynamo_ext.capture.torch_private import (
    active_modes,
    code_cache,
    compile_metrics,
    compile_settings,
    frame_answers,
    frame_eval,
    regions,
    traced_frames,
)
from dynamo_ext.capture.torch_private.patches import (
    calls,
    containers,
    loops,
    registry,
    stored_values,
)
from dynamo_ext.formatting import function_name
from dynamo_ext.interruptions import Listening, failures, interruption, raise_at
from dynamo_ext.timing import first_run


@dataclass(eq=False)
class FrameListener:
    """Dynamo's frame callback: times each compile and records it."""

    callback: Any
    compiler: Any
    fullgraph: bool = False
    names: HiddenNames | None = None

    def __post_init__(self) -> None:
        frame_eval.backend_identity(self, self.compiler)

    def __call__(self, frame: Any, cache: Any, state: Any) -> Any:
        """Compile one frame, unless a torch setting forbids it (the signature is Dynamo's)."""
        module = containers.container(frame)
        if module is not None and not containers.is_captured(module):
            return frame_answers.EAGERLY_ONCE
        # What compiles while a comparison times it is not recorded; all else is the same.
        run = active_run() or RunLog()
        # What calls the frame called this, too: a frame that has not begun has no outer.
        caller = sys._getframe(1).f_code  # noqa: SLF001 - as documented
        if is_plain(frame.f_code) or python_libraries.follows(frame.f_code, caller):
            return frame_answers.skip_permanently()
        code = frame.f_code
        left = left_before.answer(code, run)
        stays = _stays_python(code, run) or python_libraries.is_left(code, run)
        if stays or new_optimizers.stays_python(frame, run):
            return frame_answers.EAGERLY_ONCE
        if answer := left or self._kept_out(frame, cache, state, run, module):
            return answer
        with (
            first_run.current().working(
                function_name(original_function(code.co_qualname)), kind=code
            ),
            Listening(),
            compile_settings.compile_lock,
            active_modes.ended_where_it_raises(),
        ):
            if traced_frames.has_nothing_to_trace(frame):
                return frame_answers.skip_permanently()
            with stored_values.let_go_of_the_new():
                return self._interruptible(frame, cache, state, run, module)

    def _kept_out(self, frame: Any, cache: Any, state: Any, run: RunLog, module: Any) -> Any:
        """The answer where a frame is not to be compiled, which is recorded; else ``None``."""
        if module is None and traced_frames.is_library_code(frame.f_code, frame):
            return self.callback(frame, cache, state)
        if switch := frame_eval.switched_off(self.callback):
            run.fallbacks[capture_disabled.switched_off(switch)] = None
            return frame_answers.PYTHON_ONCE
        if who := active_modes.tracing_mode_name():
            run.fallbacks[capture_disabled.observed(who)] = None
            return frame_answers.PYTHON_ONCE
        given = first_run.current()
        if given.used_up(given.usual(frame.f_code)):
            run.fallbacks[capture_disabled.used_up(given)] = None
            return frame_answers.NOTHING_NEW_ONCE
        stance = frame_eval.stance()
        if stance == "eager_on_recompile":
            run.fallbacks[capture_disabled.REUSED_ONLY] = None
            return ReuseListener(self.compiler)(frame, cache, state)
        refuses = stance == "fail_on_recompile"
        return frame_answers.refuse_recompile(self, frame, cache, state) if refuses else None

    def _interruptible(self, frame: Any, cache: Any, state: Any, run: RunLog, module: Any) -> Any:
        code = frame.f_code
        try:
            return self._compile(frame, cache, state, run, module)
        except KeyboardInterrupt as error:
            line = traced_frames.line_traced(error, code)
            is_cells = (original_function(code.co_name), code.co_filename) == (
                "<module>",
                run.cell_file,
            )
            if line is None or not is_cells:
                raise
            # As in a plain cell, the lines above have run by then, and their names are bound.
            raise_at(line, code, error)
            return frame_answers.PYTHON_ONCE

    def _compile(self, frame: Any, cache: Any, state: Any, run: RunLog, module: Any) -> Any:
        code = frame.f_code
        entry = FrameEntry(
            "", original_function(code.co_name), code.co_filename, code.co_firstlineno,
            weakref.ref(code),
            code.co_name, container=weakref.ref(module) if module is not None else None,
        )  # fmt: skip
        breaks, metrics = compile_metrics.graph_breaks_from_now(), compile_metrics.latest_metrics()
        compiling.frames.append((entry, frame))
        new_optimizers.note_captured(frame, run)
        run.on_progress(f"capturing {entry.title}")
        started = time.perf_counter()
        divided, interrupted, python = False, False, None
        watch_changed()
        try:
            divide_turn(frame, self.compiler)
            result, python = self._converted(frame, cache, state, breaks)
            if not (self.fullgraph or python):
                divide(entry, metrics, breaks())
                python_libraries.note_part(code, entry, run, broke=bool(breaks()))
        except SplitBlockError as why:
            divided = True
            why.divide()
            note_division(why, entry, breaks(), run)
            # Its traceback holds what tracing made.
            why.__context__ = None
            raise why.with_traceback(None) from None
        except Exception as error:
            interrupted = interruption(error) is not None
            failures()
            if self.fullgraph:
                if not frame_answers.is_users_own(error):
                    raise
                run.refused = error
            # The user's own error, met while tracing: eager raises it again, from its line.
            entry.outcome, entry.raised = "failed", (type(error).__name__, str(error))
            entry.reason = ": ".join(entry.raised)
            result = frame_answers.EAGERLY_ONCE
        finally:
            compiling.frames.pop()
            run.on_progress("")
            entry.seconds = time.perf_counter() - started
            entry.inlined_functions = calls.take_traced()
            code_cache.unmark_static(entry.static_marks)
            newest = compile_metrics.latest_metrics()
            if (divided or newest is not metrics) and not compiling.frames:
                run.compile_seconds += entry.seconds
            # A container that is not captured is as in a plain call; its layers may be.
            left = module is not None and entry.rewritten is None
            if newest is not metrics and not (divided or interrupted or left):
                _finish(entry, newest, breaks(), run, python)
        if (guards := code_cache.new_guards(result)) is not None:
            guard_watched(code, guards)
        elif module is not None:
            containers.leave_to_python(module)
            return frame_answers.EAGERLY_ONCE
        return result

    def _converted(
        self, frame: Any, cache: Any, state: Any, breaks: Callable[[], Sequence[Any]]
    ) -> tuple[Any, calls.StaysPythonError | None]:
        """Dynamo's answer for a frame, or ours and why it stays Python."""
        convert = self.callback
        if not self.fullgraph:
            convert = functools.partial(frame_answers.convert, convert)
        try:
            # No other thread compiles meanwhile: what is put back must be what was found.
            with (
                compile_settings.compile_lock,
                compile_settings.heard_bytecode(compiling.note_bytecode),
                compile_settings.capture_settings(**regions.own_limit(frame.f_code, self.compiler)),
                registry.traced_our_way(),
                compile_settings.quiet_logs(),
                traced_frames.traced_for_its_names(frame),
                self.names.watching(frame.f_globals) if self.names else contextlib.nullcontext(),
            ):
                result = convert(frame, cache, state)
            # The compiler has asked already, unless there was nothing to compile.
            if (found := breaks()) and not compiling.frames[-1][0].graphs:
                compiling.note_break(found[0].user_stack)
        except calls.StaysPythonError as met:
            return self._left_to_python(frame, met), met
        return result, None

    def _left_to_python(self, frame: Any, met: calls.StaysPythonError) -> Any:
        """Answer for a frame that stays Python; loops of a cell go on by turns."""
        if self.fullgraph:
            return frame_answers.PYTHON_ONCE
        block = block_of(frame.f_code)
        line = next((s.lineno for s in met.stack if s.filename == frame.f_code.co_filename), 0)
        if not met.once:
            python_libraries.note(frame.f_code)
            if block is not None:
                block.split_at(line)
                raise SplitBlockError(block, line)
            begun = frame.f_code
            # As in `__call__`.
            outer = sys._getframe(5).f_code  # noqa: SLF001 - as documented
            if met.looker is begun and (caller := compiling.entry_of_rewritten(outer)):
                caller.fell_back("", f"{met.message}{capture_failures.TOO_LATE}", met.remedy)
                begun = caller.code()
            if (origin := code_cache.users_code(begun)) and block_of(origin) is None:
                # Of what has begun, names are missing by now; its next call has them all.
                code_cache.leave_to_python(origin)
                if run := active_run():
                    run.left[origin] = False, None
            return frame_answers.skip_permanently()
        if block is not None and block.has_loop_from(line):
            block.split_at_break(met.stack)
        return frame_answers.EAGERLY_ONCE


def _stays_python(code: types.CodeType, run: RunLog) -> bool:
    """Whether calls of a function are known to run in Python, which is recorded."""
    if code not in loops.python_loops:
        return False
    python_libraries.note(code)
    why = loops.MESSAGE.format(code.co_qualname)
    run.fallbacks[capture_disabled.of_run(why, loops.REMEDY, harmless=True)] = None
    return True


def _finish(
    entry: FrameEntry, metrics: Any, breaks: Any, run: RunLog, python: calls.StaysPythonError | None
) -> None:
    entry.id = str(metrics.compile_id)
    entry.breaks += capture_failures.graph_breaks(breaks, run)
    if python is not None:
        capture_failures.note_python(entry, python, run)
    elif metrics.fail_type:
        capture_failures.note_failure(entry, metrics, run)
    elif entry.raised is not None:
        entry.fell_back(*entry.raised)
    elif entry.rewritten is None:
        entry.outcome, entry.reason = "skipped", "nothing in it can be compiled"
    run.compiled.append(entry)
