"""A backend's compiler as Dynamo sees it, with a record of every graph it is given.

The callable that Dynamo gets back costs one comparison per call where nothing records.
"""

import itertools
import sys
import time
import traceback
import weakref
from collections.abc import Callable, Sequence
from types import CodeType
from typing import Any

from torch.fx import GraphModule

from dynamo_ext.backends import effects, journal
from dynamo_ext.backends.base import CompilerFn
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.backends.pipeline.checkpointing import as_captured
from dynamo_ext.backends.undo import Undo
from dynamo_ext.capture.cells.block import FinishedError, block_of
from dynamo_ext.capture.listen import (
    double_backward,
    eager_replay,
    frame_listener,
    run_log,
    small_graphs,
)
from dynamo_ext.capture.listen.backward_time import follow
from dynamo_ext.capture.listen.run_log import FrameEntry, GraphEntry
from dynamo_ext.capture.report import capture_disabled
from dynamo_ext.capture.report.breaks import graph_break, in_users_words
from dynamo_ext.capture.report.graphs import last_line, operation_table
from dynamo_ext.capture.report.source_lines import from_summaries, users_line
from dynamo_ext.capture.torch_private import active_modes, code_cache, compile_metrics, frame_eval
from dynamo_ext.formatting import count
from dynamo_ext.interruptions import pass_on
from dynamo_ext.numerics.rng_state import TorchState
from dynamo_ext.torch_private.dispatch import ends_recomputation
from dynamo_ext.torch_private.entered_modes import forward_of

_OUTER_FRAMES = 12


class RecordedCompiler:
    """One per compiler, so that Dynamo, which compares backends by identity, reuses its code."""

    def __init__(self, compiler: CompilerFn, name: str) -> None:
        self.compiler = compiler
        self.name = name

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one captured graph (Dynamo's backend contract)."""
        # Written now: a `forward` taken before is slower, and prints the code where it raises.
        _ = graph.code
        run = run_log.active_run()
        frame = frame_listener.frame_being_compiled()
        if run is None or frame is None:
            return self.compiler(graph, inputs)
        cell_file = run.cell_file
        cut = getattr(graph, "compile_subgraph_reason", None)
        ended_by = None
        if cut is not None and cut.graph_break:
            frame_listener.note_break(cut.user_stack)
            if (block := block_of(frame.code())) is not None:
                block.split_at_break(cut.user_stack, last_line(graph, frame.file))
            stack = from_summaries(cut.user_stack, cell_file)
            text = in_users_words(cut.reason, cell_file)
            ended_by = graph_break(text, users_line(stack), stack)
        operations = operation_table(graph, cell_file)
        size = count(len(operations), "operation")
        title = f"graph {len(run.calls) + 1} ({size} of {frame.title})"
        entry = GraphEntry(
            frame,
            self.name,
            operations,
            graph.print_readable(print_output=False, include_stride=False),
            ended_by,
            journal.Journal(title),
            *effects.of_graph(graph),
            is_small=small_graphs.is_small(graph),
        )
        if (block := block_of(code_cache.users_code(frame.code()))) is not None:
            block.has_graphs = True
        frame.static_marks.extend(code_cache.marked_static(inputs))
        frame.graphs.append(weakref.ref(entry))
        frame.input_shapes.update(compile_metrics.input_shapes(graph))
        run.calls_of(entry)
        doing = f"{title} with {self.name}"
        run.on_progress(doing)
        entry.compile_started = time.perf_counter()
        told = run.on_doing or (lambda words: run.on_progress(words or doing))
        with journal.active(entry.journal, told):
            compiled = self._compiled(graph, inputs, (*run.codes, frame.code()))
        entry.compile_seconds = time.perf_counter() - entry.compile_started
        return _recorded(compiled, graph, entry)

    def _compiled(
        self, graph: GraphModule, inputs: Sequence[Any], codes: Sequence[CodeType | None]
    ) -> Callable[..., Any]:
        known = [code for code in codes if code is not None]
        if self.name == "eager" or not double_backward.uses_create_graph(known, inputs):
            return self.compiler(graph, inputs)
        journal.current().add_fallback(
            "unsupported", "graph", message=double_backward.MESSAGE, remedy=double_backward.REMEDY
        )
        return as_captured(graph)


def _recorded(
    compiled: Callable[..., Any], graph: GraphModule, entry: GraphEntry
) -> Callable[..., Any]:
    clock, acts = time.perf_counter, entry.draws or entry.mutates
    inner = getattr(compiled, "__wrapped__", compiled)
    plain = inner is graph or getattr(inner, "__self__", None) is graph
    # Not graph(...), which prints its generated code on an error.
    eager = None if plain else forward_of(graph)
    mode_active = active_modes.tracing_mode_active
    held = held_tensors(graph) if entry.mutates else []
    # Where a graph fails on its data, it mostly does at its first call: later ones copy nothing.
    first = True

    def call(*args: Any) -> Any:
        nonlocal first
        if mode_active():
            return _observed(eager or compiled, args)
        before = _kept(entry, [*args, *held], first=first) if acts else None
        run = run_log._active  # noqa: SLF001 - a function call saved on every graph call
        if run is not None:
            counted = run.calls_of(entry)
            if run.on_graph_call is not None:
                run.on_graph_call(counted, graph, args)
            started = clock()
        try:
            result = compiled(*args)
        except Exception as error:  # any failure of an engine means eager
            pass_on(error)
            if ends_recomputation(error):
                raise
            failure: Exception | None = error
        else:
            failure, first = None, False
        if failure is not None:
            result = _recover(eager, entry, args, failure, before)
        if run is not None:
            counted.note(started, clock())
            follow(result, entry, counted, run)
            run.after_graph_call(run, entry, graph, compiled, args)
        return result

    return call


def _kept(entry: GraphEntry, values: list[Any], *, first: bool) -> Undo | TorchState | None:
    """What puts back what a call may change, where that can be afforded."""
    if not entry.mutates:
        return TorchState()
    return Undo(values, draws=entry.draws) if first else None


def _observed(eager: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Eager's result, operation by operation, for a tool that observes them."""
    if run := run_log.active_run():
        run.fallbacks[capture_disabled.observed(active_modes.tracing_mode_name())] = None
    return eager(*args)


def _recover(
    eager: Callable[..., Any] | None,
    entry: GraphEntry,
    args: tuple[Any, ...],
    failure: Exception,
    before: Undo | TorchState | None,
) -> Any:
    """Eager's result where only the engine failed; the user's own error from its own line."""
    if not _as_before(entry, before):
        raise failure
    genuine: Exception | None = None
    if eager is not None:
        try:
            result = eager(*args)
        except Exception as error:  # noqa: BLE001
            pass_on(error)
            genuine = error
        else:
            entry.journal.add_fallback(
                "run", "graph", error=failure, remedy="This call ran eagerly; try another backend."
            )
            return result
    if _as_before(entry, before):
        _raise_from_users_line()
    raise genuine or failure


def _as_before(entry: GraphEntry, before: Undo | TorchState | None) -> bool:
    """Undo what a failed call did, so that what runs next finds and draws what it had."""
    if before is None:
        return not entry.mutates
    return before.restore() is not False


def _raise_from_users_line() -> None:
    outer = traceback.walk_stack(sys._getframe(2))  # noqa: SLF001 - what called the failing graph
    for frame, _ in itertools.islice(outer, _OUTER_FRAMES):
        found: FrameEntry | None = frame_listener.entry_of_rewritten(frame.f_code)
        original = found.code() if found else None
        if original is not None:
            if code_cache.draws_first(frame.f_code):
                return
            value = frame_eval.call_under(
                None, eager_replay.run_original, original, dict(frame.f_locals), frame.f_globals
            )
            if (block := block_of(code_cache.users_code(original))) is not None:
                raise FinishedError(block, value)
            return


_recorded_compilers: dict[tuple[int, bool | None, bool], RecordedCompiler] = {}


def recorded(
    compiler: CompilerFn, name: str, *, dynamic: bool | None = None, fullgraph: bool = False
) -> RecordedCompiler:
    """The one ``RecordedCompiler`` of a compiler and flags: Dynamo asks for the compiler alone."""
    key = (id(compiler), dynamic, fullgraph)
    # As long as one is known, its compiler lives, and no other has that number.
    return _recorded_compilers.setdefault(key, RecordedCompiler(compiler, name))


def forget_recorded(compiler: CompilerFn) -> None:
    """Let go of a compiler that was made for one purpose (a comparison)."""
    for key in [k for k, known in _recorded_compilers.items() if known.compiler is compiler]:
        del _recorded_compilers[key]
