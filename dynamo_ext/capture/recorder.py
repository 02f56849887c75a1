"""Listens while code runs under Dynamo: frames, graphs, guards, breaks, recompiles, bytecode.

Two lifetimes meet here. ``FrameEntry`` and ``GraphEntry`` live as long as Dynamo's compiled code
(its graphs hold them), so that a later run that compiles nothing still has a full report.
``Run`` lives for one run and counts what happened in it.
"""

from __future__ import annotations

import ast
import contextlib
import linecache
import re
import threading
import time
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.journal import Journal
from dynamo_ext.capture import torch_private
from dynamo_ext.capture.block import NotWholeError, block_of, is_plain
from dynamo_ext.capture.break_record import graph_break, in_users_words, parse_message
from dynamo_ext.capture.guard_record import guard_records
from dynamo_ext.capture.recompile_record import recompile_record
from dynamo_ext.capture.source_lines import (
    from_summaries,
    original_function,
    source_line,
    users_line,
)
from dynamo_ext.records import Fallback, GraphBreak, Guard, Operation, Recompile, SourceLine

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from dynamo_ext.capture.hidden_names import HiddenNames


@dataclass(eq=False)
class FrameEntry:
    """A function that Dynamo compiled, skipped or failed on.

    ``name`` is the user's; ``code_name`` tells the parts that Dynamo makes of it apart.
    """

    id: str
    name: str
    file: str
    line: int
    code: weakref.ref[types.CodeType]
    code_name: str = ""
    outcome: str = "compiled"
    reason: str = ""
    seconds: float = 0.0
    guards: tuple[Guard, ...] = ()
    guard_seconds: float = 0.0
    breaks: list[GraphBreak] = field(default_factory=list)
    fallbacks: list[Fallback] = field(default_factory=list)
    graphs: list[weakref.ref[GraphEntry]] = field(default_factory=list)
    missed: bool = False
    marked: list[weakref.ref[Any]] = field(default_factory=list)
    input_shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    rewritten: weakref.ref[types.CodeType] | None = None
    traced: frozenset[tuple[str, str]] = frozenset()
    bytecode: tuple[str, str] | None = None

    @property
    def title(self) -> str:
        """What a user calls it: the cell, or a function."""
        return "the cell" if self.name == "<module>" else f"{self.name} (line {self.line})"


@dataclass(eq=False)
class GraphEntry:
    """A captured graph, held by its compiled callable."""

    frame: FrameEntry
    backend: str
    operations: tuple[Operation, ...]
    source: str
    ended_by: GraphBreak | None
    journal: Journal
    mutates: bool
    compile_seconds: float = 0.0


@dataclass
class Calls:
    """How often a graph ran in one run, and for how many seconds of wall time.

    ``fallbacks_before`` counts what its journal held when the run first met it.
    """

    count: int = 0
    seconds: float = 0.0
    fallbacks_before: dict[tuple[str, ...], int] = field(default_factory=dict)


class Run:
    """What happened between two moments, on one thread and those it starts (autograd's).

    ``told`` hears what is being captured or compiled as it begins, and an empty text when the run
    goes on.
    """

    def __init__(
        self, *, cell_file: str | None = None, told: Callable[[str], object] | None = None
    ) -> None:
        self.cell_file = cell_file
        self.told = told or (lambda _: None)
        self.calls: dict[GraphEntry, Calls] = {}
        self.compiled: list[FrameEntry] = []
        self.recompiles: dict[tuple[str, ...], Recompile] = {}
        self.eager_frames: dict[tuple[str, str, int], FrameEntry] = {}
        self.compile_seconds = 0.0
        self.condition_breaks: dict[GraphBreak, None] = {}
        self.lock = threading.Lock()

    def calls_of(self, entry: GraphEntry) -> Calls:
        """The counter of a graph, begun where this run has not met it yet."""
        counted = self.calls.get(entry)
        if counted is None:
            before = {key: found.count for key, found in entry.journal.fallbacks.items()}
            counted = self.calls.setdefault(entry, Calls(fallbacks_before=before))
        return counted

    def add_recompile(self, found: Recompile) -> None:
        """Keep equal recompiles once, with their count."""
        key = (found.function, found.guard, found.actual, str(found.prevented))
        with self.lock:
            known = self.recompiles.get(key)
            count = known.count + 1 if known else 1
            fields = {**found.__dict__, "count": count}
            self.recompiles[key] = Recompile(**fields)


_active: Run | None = None


def active_run() -> Run | None:
    """The run being recorded in this process, if any."""
    return _active


@contextlib.contextmanager
def recording(run: Run) -> Iterator[Run]:
    """Make ``run`` the one that compiled graphs report their calls to."""
    global _active  # noqa: PLW0603 - read on every graph call: a plain global is the cheapest
    outer, _active = _active, run
    try:
        yield run
    finally:
        _active = outer


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
    """Dynamo's frame callback with ears: times each compile and keeps what it said."""

    def __init__(
        self,
        callback: Any,
        compiler: Any,
        *,
        fullgraph: bool = False,
        names: HiddenNames | None = None,
    ) -> None:
        self._callback = callback
        self._compiler = compiler
        self._fullgraph = fullgraph
        self._names = names
        torch_private.backend_identity(self, compiler)

    def __call__(self, frame: Any, cache: Any, state: Any) -> Any:
        """Compile one frame and record it (the signature is Dynamo's)."""
        run = _active
        code = frame.f_code
        if is_plain(code):
            return torch_private.skip_frame()
        if run is None or torch_private.is_library_code(code):
            return self._callback(frame, cache, state)
        entry = FrameEntry(
            "", original_function(code.co_name), code.co_filename, code.co_firstlineno,
            weakref.ref(code),
            code.co_name,
        )  # fmt: skip
        breaks, metrics = torch_private.graph_break_count(), torch_private.latest_metrics()
        _compiling.stack.append((entry, frame))
        run.told(f"capturing {entry.title}")
        started = time.perf_counter()
        divided = True
        try:
            _divide_turn(frame, self._compiler)
            with self._surroundings(frame.f_globals):
                result = self._callback(frame, cache, state)
            if not self._fullgraph:
                _divide(entry, metrics, torch_private.graph_breaks(breaks))
            divided = False
        except NotWholeError as why:
            why.divide()
            _note_division(why, entry, torch_private.graph_breaks(breaks), run)
            raise
        except Exception as error:
            divided = False
            if self._fullgraph:
                raise
            # The user's own error, met while tracing: eager raises it again, from its line.
            entry.outcome, entry.reason = "failed", f"{type(error).__name__}: {error}"
            result = torch_private.run_eagerly_now(callees_too=False)
        finally:
            _compiling.stack.pop()
            run.told("")
            entry.seconds = time.perf_counter() - started
            entry.traced = torch_private.take_traced()
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
                torch_private.namespace_as_locals(),
                torch_private.quiet_logs(),
                self._names.watching(namespace) if self._names else contextlib.nullcontext(),
            ):
                yield
        finally:
            hook.remove()


def _divide(entry: FrameEntry, before: Any, breaks: Sequence[Any]) -> None:
    """Raise where Dynamo has given up a block that can be divided, or stops short of its loop."""
    block, metrics = block_of(entry.code()), torch_private.latest_metrics()
    if block is None or metrics is before:
        return
    if not metrics.fail_type:
        # The compiler has asked already, unless there was nothing to compile before the break.
        if breaks and not entry.graphs:
            block.refuse_half(breaks[0].user_stack)
    elif metrics.fail_type.endswith("Unsupported") and _LIMIT not in metrics.fail_reason:
        own = metrics.fail_user_frame_filename == entry.file
        block.refuse(metrics.fail_user_frame_lineno if own else None)


_GROWING = re.compile(r"(?:len\(|not )G\['(\w+)'\]")


def _note_division(why: NotWholeError, entry: FrameEntry, breaks: Sequence[Any], run: Run) -> None:
    block = why.block
    if block.is_condition(why.line):
        block.condition_breaks = tuple(_graph_breaks(breaks, run))
    if not block.plain:
        return
    entry.outcome, entry.reason = "skipped", "nothing in it can be compiled"
    entry.id = f"line {block.first_line}"
    if block.has_graphs:
        entry.reason = "a list that it changes grows at each turn of the loop"
        line = source_line(entry.file, block.first_line, entry.name, run.cell_file)
        entry.fallbacks.append(
            Fallback(
                "capture", "frame", entry.id, "", "RecompileError",
                "A list that is longer at each turn of the loop would have it compiled anew each "
                "time: compiled code is guarded on the length.", _APART, line=line,
            )
        )  # fmt: skip
    run.compiled.append(entry)


def _divide_turn(frame: Any, compiler: Any) -> None:
    """Raise where a turn of a loop would be compiled anew for what changes with each turn."""
    block = block_of(frame.f_code)
    if block is None or not block.turn:
        return
    versions, reasons = torch_private.recompile_reasons(frame, compiler)
    names = {name for reason in reasons for name in _GROWING.findall(reason)}
    if names:
        block.refuse_growing(names)
    if versions:
        block.refuse_empty()


def _finish(entry: FrameEntry, metrics: Any, breaks: Any, run: Run) -> None:
    entry.id = str(metrics.compile_id)
    entry.breaks += _graph_breaks(breaks, run)
    if metrics.fail_type:
        _note_failure(entry, metrics, run)
    elif entry.outcome == "failed":
        kind, _, text = entry.reason.partition(": ")
        entry.fallbacks.append(Fallback("capture", "frame", entry.id, "", kind, text, ""))
    elif entry.rewritten is None:
        entry.outcome, entry.reason = "skipped", "nothing in it can be compiled"
    run.compiled.append(entry)


def _graph_breaks(reasons: Iterable[Any], run: Run) -> Iterator[GraphBreak]:
    for reason in reasons:
        stack = from_summaries(reason.user_stack, run.cell_file)
        text = in_users_words(reason.reason, run.cell_file)
        yield graph_break(text, users_line(stack), stack)


def _note_failure(entry: FrameEntry, metrics: Any, run: Run) -> None:
    text = in_users_words(metrics.fail_reason or metrics.fail_type, run.cell_file)
    message = parse_message(text)
    kind = metrics.fail_type.rsplit(".", 1)[-1]
    stack: tuple[SourceLine, ...] = ()
    if metrics.fail_user_frame_filename:
        stack = from_summaries(
            [
                _Summary(
                    metrics.fail_user_frame_filename, metrics.fail_user_frame_lineno, entry.name
                )
            ],
            run.cell_file,
        )
    line = users_line(stack)
    entry.outcome = "skipped" if message.registry_id else "failed"
    entry.reason = message.reason
    if message.registry_id:
        found = graph_break(text, line, stack)
        if not any(b.reason == found.reason and b.line == found.line for b in entry.breaks):
            entry.breaks.append(found)
    remedy = message.hints[0] if message.hints else _REMEDIES.get(kind, "")
    if message.registry_id == _LIMIT:
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


_LIMIT = "gb0039"
_SPLIT = (
    "The loop around it keeps it from being split there: put the loop's body into a function, "
    "which is then compiled by itself."
)
_APART = "Assign the result to a name in a line of its own, and put that into the list in the next."
_REMEDIES = {
    "RecompileLimitExceeded": "See Guards for what changes from run to run: keep a changing "
    "number in a tensor, and mark changing sizes with %%dynamo --dynamic.",
    "BackendCompilerFailed": "The backend raised while it compiled; try another one.",
}


@dataclass(frozen=True)
class _Summary:
    filename: str
    lineno: int
    name: str


def note_guards(guards: Any) -> None:
    """Dynamo's ``guard_export_fn``."""
    entry, run = frame_being_compiled(), _active
    if entry is not None:
        frame = torch_private.current_compile_id()
        cell_file = run.cell_file if run else None
        entry.guards = guard_records(frame, guards, cell_file, entry.input_shapes)


def note_guard_failure(failure: Any) -> None:
    """Dynamo's ``guard_fail_fn``: called for a frame that is compiled again."""
    run = _active
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
            [_Summary(frame.f_code.co_filename, frame.f_code.co_firstlineno, name)],
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
            )
        )
