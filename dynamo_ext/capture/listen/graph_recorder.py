"""A backend's compiler as Dynamo sees it, with a record of every graph it is given.

The callable that Dynamo gets back costs one comparison per call where nothing records.
"""

import functools
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
from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall
from dynamo_ext.backends.pipeline.checkpointing import keep_random_state
from dynamo_ext.capture.code.block import FinishedError, block_of
from dynamo_ext.capture.events import capture_disabled
from dynamo_ext.capture.events.graphs import lines_of, operation_table
from dynamo_ext.capture.listen import (
    compiling,
    double_backward,
    eager_replay,
    run_log,
    small_graphs,
)
from dynamo_ext.capture.listen.backward_time import follow
from dynamo_ext.capture.listen.capture_failures import graph_breaks
from dynamo_ext.capture.listen.run_log import FrameEntry, GraphEntry
from dynamo_ext.capture.torch_private import active_modes, code_cache, compile_metrics, frame_eval
from dynamo_ext.formatting import count
from dynamo_ext.interruptions import raise_at
from dynamo_ext.torch_private.entered_modes import forward_of

_OUTER_FRAMES = 12


class RecordedCompiler:
    """One per compiler, so that Dynamo, which compares backends by identity, reuses its code."""

    def __init__(self, compiler: Any, *, dynamic: bool | None = None) -> None:
        self.compiler = compiler
        self.name: str = compiler.name
        self._dynamic = dynamic

    def __repr__(self) -> str:
        """All that its result for a graph depends on."""
        return f"{self.compiler!r}, dynamic={self._dynamic}"

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one captured graph (Dynamo's backend contract)."""
        # Written now: a `forward` taken before is slower, and prints the code where it raises.
        _ = graph.code
        run = run_log.active_run()
        frame = compiling.frame_being_compiled()
        if run is None or frame is None:
            return self.compiler(graph, inputs)  # type: ignore[no-any-return]
        cut = getattr(graph, "compile_subgraph_reason", None)
        ended_by = None
        if cut is not None and cut.graph_break:
            compiling.note_break(cut.user_stack)
            if (block := block_of(frame.code())) is not None:
                block.split_at_break(cut.user_stack, lines_of(graph, frame.file)[1])
            [ended_by] = graph_breaks([cut], run)
        operations = operation_table(graph, run.cell_file)
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
            return self.compiler(graph, inputs)  # type: ignore[no-any-return]
        journal.current().add_fallback(
            "unsupported", "graph", message=double_backward.MESSAGE, remedy=double_backward.REMEDY
        )
        keep_random_state(graph)
        return forward_of(graph)


def _recorded(
    compiled: Callable[..., Any], graph: GraphModule, entry: GraphEntry
) -> Callable[..., Any]:
    clock, mode_active = time.perf_counter, active_modes.tracing_mode_active
    guarded = compiled
    if not isinstance(guarded, GraphCall):
        guarded = GraphCall(graph, compiled, entry.journal)
    guarded.replay = functools.partial(_raise_from_users_line, graph)

    def call(*args: Any) -> Any:
        if mode_active():
            return _observed(guarded.eager, args)
        run = run_log._active  # noqa: SLF001 - a function call saved on every graph call
        if run is None:
            return guarded(*args)
        counted = run.calls_of(entry)
        if run.on_graph_call is not None:
            run.on_graph_call(counted, graph, args)
        way = guarded if run.way_of_call is None else run.way_of_call(run, entry, guarded, args)
        started = clock()
        result = way(*args)
        counted.seconds += clock() - started
        counted.count += 1
        follow(result, entry, counted, run)
        run.after_graph_call(run, entry, graph, compiled, args)
        return result

    return call


def _observed(eager: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Eager's result, operation by operation, for a tool that observes them."""
    if run := run_log.active_run():
        run.fallbacks[capture_disabled.observed(active_modes.tracing_mode_name())] = None
    return eager(*args)


def _raise_from_users_line(graph: GraphModule, interrupt: KeyboardInterrupt | None = None) -> None:
    """Run the code that called a graph as plain Python, up to its error or the graph's first line.

    An ``interrupt`` is raised there, in the cell's own code: what stands above it has run then.
    """
    outer = traceback.walk_stack(sys._getframe(1))  # noqa: SLF001 - what called the failing graph
    for frame, _ in itertools.islice(outer, _OUTER_FRAMES):
        found: FrameEntry | None = compiling.entry_of_rewritten(frame.f_code)
        original = found.code() if found else None
        if original is not None:
            if code_cache.draws_first(frame.f_code):
                return
            if interrupt is not None:
                line, _ = lines_of(graph, original.co_filename)
                if not line or block_of(code_cache.users_code(original)) is None:
                    return
                raise_at(line, original, interrupt)
            value = frame_eval.call_under(
                None, eager_replay.run_original, original, dict(frame.f_locals), frame.f_globals
            )
            if (block := block_of(code_cache.users_code(original))) is not None:
                raise FinishedError(block, value)
            return


_recorded_compilers: dict[tuple[int, bool | None, bool], RecordedCompiler] = {}


def recorded(
    compiler: Any, *, dynamic: bool | None = None, fullgraph: bool = False
) -> RecordedCompiler:
    """The one ``RecordedCompiler`` of a compiler and flags: Dynamo asks for the compiler alone."""
    key = (id(compiler), dynamic, fullgraph)
    # As long as one is known, its compiler lives, and no other has that number.
    return _recorded_compilers.setdefault(key, RecordedCompiler(compiler, dynamic=dynamic))


def forget_recorded(compiler: CompilerFn) -> None:
    """Let go of a compiler that was made for one purpose (a comparison)."""
    for key in [k for k, known in _recorded_compilers.items() if known.compiler is compiler]:
        del _recorded_compilers[key]
