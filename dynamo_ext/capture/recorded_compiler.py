"""A backend's compiler as Dynamo sees it, with a record of every graph it is given.

The callable that Dynamo gets back costs one comparison per call where nobody records.
"""

from __future__ import annotations

import sys
import time
import weakref
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import journal
from dynamo_ext.backends.checkpointing import as_captured
from dynamo_ext.backends.random_state import TorchState
from dynamo_ext.backends.torch_private import ends_recomputation
from dynamo_ext.capture import (
    kept_out,
    recorder,
    replay,
    run_log,
    second_derivatives,
    torch_private,
)
from dynamo_ext.capture.backward_time import follow
from dynamo_ext.capture.block import block_of
from dynamo_ext.capture.break_record import graph_break, in_users_words
from dynamo_ext.capture.graph_record import last_line, operation_table
from dynamo_ext.capture.run_log import FrameEntry, GraphEntry
from dynamo_ext.capture.source_lines import from_summaries, users_line
from dynamo_ext.wording import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import CodeType

    from torch.fx import GraphModule

    from dynamo_ext.backends.base import CompilerFn

_OUTER_FRAMES = 12


class RecordedCompiler:
    """One per compiler, so that Dynamo, which compares backends by identity, reuses its code."""

    def __init__(self, compiler: CompilerFn, name: str) -> None:
        self.compiler = compiler
        self.name = name

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one captured graph (Dynamo's backend contract)."""
        torch_private.finish_code(graph)
        run = run_log.active_run()
        frame = recorder.frame_being_compiled()
        if run is None or frame is None:
            return self.compiler(graph, inputs)
        cell_file = run.cell_file
        cut = getattr(graph, "compile_subgraph_reason", None)
        ended_by = None
        if cut is not None and cut.graph_break:
            if (block := block_of(frame.code())) is not None:
                block.refuse_half(cut.user_stack, last_line(graph, frame.file))
            stack = from_summaries(cut.user_stack, cell_file)
            text = in_users_words(cut.reason, cell_file)
            ended_by = graph_break(text, users_line(stack), stack)
        entry = GraphEntry(
            frame,
            self.name,
            operation_table(graph, cell_file),
            graph.print_readable(print_output=False, include_stride=False),
            ended_by,
            journal.Journal(f"graph-{id(graph):x}"),
            replay.mutates_inputs(graph),
            replay.draws_numbers(graph),
        )
        if (block := block_of(torch_private.users_code(frame.code()))) is not None:
            block.has_graphs = True
        frame.marked.extend(torch_private.marked_static(inputs))
        frame.graphs.append(weakref.ref(entry))
        frame.input_shapes.update(torch_private.input_shapes(graph))
        run.calls_of(entry)
        size = count(len(entry.operations), "operation")
        run.told(f"graph {len(run.calls)} ({size} of {frame.title}) with {self.name}")
        started = time.perf_counter()
        with journal.active(entry.journal):
            compiled = self._compiled(graph, inputs, (*run.codes, frame.code()))
        entry.compile_seconds = time.perf_counter() - started
        return _recorded(compiled, graph, entry)

    def _compiled(
        self, graph: GraphModule, inputs: Sequence[Any], codes: Sequence[CodeType | None]
    ) -> Callable[..., Any]:
        known = [code for code in codes if code is not None]
        if self.name == "eager" or not second_derivatives.wants_them(known, inputs):
            return self.compiler(graph, inputs)
        journal.current().add_fallback(
            "unsupported",
            "graph",
            message=second_derivatives.MESSAGE,
            remedy=second_derivatives.REMEDY,
        )
        return as_captured(graph)


def _recorded(
    compiled: Callable[..., Any], graph: GraphModule, entry: GraphEntry
) -> Callable[..., Any]:
    clock, draws = time.perf_counter, entry.draws
    plain = compiled is graph or getattr(compiled, "__self__", None) is graph
    # Not graph(...), which prints its generated code on an error.
    eager = None if plain else graph.forward
    looked_at = torch_private.looked_at

    def call(*args: Any) -> Any:
        if looked_at():
            return _looked_at(eager or compiled, args)
        drawn = TorchState() if draws else None
        run = run_log._active  # noqa: SLF001 - a function call saved on every graph call
        if run is not None:
            counted = run.calls_of(entry)
            if run.watcher is not None:
                run.watcher(counted, graph, args)
            started = clock()
        try:
            result = compiled(*args)
        except Exception as error:  # any failure of an engine means eager
            if ends_recomputation(error):
                raise
            failure: Exception | None = error
        else:
            failure = None
        if failure is not None:
            result = _recover(eager, entry, args, failure, drawn)
        if run is not None:
            counted.count += 1
            counted.seconds += clock() - started
            follow(result, entry, counted, run)
        return result

    return call


def _looked_at(eager: Callable[..., Any], args: tuple[Any, ...]) -> Any:
    """Eager's result, operation by operation, for who looks at them."""
    if run := run_log.active_run():
        run.fallbacks[kept_out.looked_at(torch_private.onlooker())] = None
    return eager(*args)


def _recover(
    eager: Callable[..., Any] | None,
    entry: GraphEntry,
    args: tuple[Any, ...],
    failure: Exception,
    drawn: TorchState | None,
) -> Any:
    """Eager's result where only the engine failed; the user's own error from its own line."""
    if entry.mutates:
        raise failure
    genuine: Exception | None = None
    if eager is not None:
        _draw_again(drawn)
        try:
            result = eager(*args)
        except Exception as error:  # noqa: BLE001
            genuine = error
        else:
            entry.journal.add_fallback(
                "run", "graph", error=failure, remedy="This call ran eagerly; try another backend."
            )
            return result
    _draw_again(drawn)
    _raise_from_users_line()
    raise genuine or failure


def _draw_again(drawn: TorchState | None) -> None:
    """Have what runs next draw the numbers that the failed graph had."""
    if drawn is not None:
        drawn.restore()


def _raise_from_users_line() -> None:
    frame = sys._getframe(2)  # noqa: SLF001 - the frame that called the failing graph
    for _ in range(_OUTER_FRAMES):
        found: FrameEntry | None = recorder.entry_of_rewritten(frame.f_code)
        original = found.code() if found else None
        if original is not None:
            torch_private.call_under(
                None, replay.run_original, original, dict(frame.f_locals), frame.f_globals
            )
            return
        if frame.f_back is None:
            return
        frame = frame.f_back


_recorded_compilers: dict[tuple[int, bool | None, bool], RecordedCompiler] = {}


def recorded(
    compiler: CompilerFn, name: str, *, dynamic: bool | None = None, fullgraph: bool = False
) -> RecordedCompiler:
    """The one ``RecordedCompiler`` of a compiler and the flags it compiles under.

    Dynamo does not ask what flags its code was made under, only for which compiler.
    """
    key = (id(compiler), dynamic, fullgraph)
    known = _recorded_compilers.get(key)
    if known is None or known.compiler is not compiler:
        known = _recorded_compilers[key] = RecordedCompiler(compiler, name)
    return known


def forget_recorded(compiler: CompilerFn) -> None:
    """Let go of a compiler that nothing will be compiled with again."""
    for key in [k for k, known in _recorded_compilers.items() if known.compiler is compiler]:
        del _recorded_compilers[key]
