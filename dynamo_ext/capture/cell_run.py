"""One run of a cell program in the user's namespace, and the report of it."""

from __future__ import annotations

import contextlib
import sys
import time
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import torch_private
from dynamo_ext.capture.reach import reaches_tensors
from dynamo_ext.capture.replaced_methods import forget_stale
from dynamo_ext.capture.report_builder import RunFacts, build_report
from dynamo_ext.capture.run_log import Recording, Run
from dynamo_ext.capture.standing import Standing
from dynamo_ext.capture.stepping import Stepper
from dynamo_ext.capture.user_traceback import users_traceback
from dynamo_ext.records import CodeBlock, Mode, Report

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.capture.cell import CellProgram, PlainStatement
    from dynamo_ext.capture.hidden_names import HiddenNames
    from dynamo_ext.capture.recorded_compiler import RecordedCompiler
    from dynamo_ext.capture.run_log import Watcher
    from dynamo_ext.capture.tracing import Tracer


@dataclass
class CellState:
    """A program and what its runs so far have left behind.

    ``standing`` holds frames that Dynamo will not look at again although they run eagerly, of
    other cells' runs too;
    ``last_compiler`` is the one that ``run`` reuses.
    """

    program: CellProgram
    standing: Standing = field(default_factory=Standing)
    last_compiler: RecordedCompiler | None = None

    def release(self) -> None:
        """Let go of everything that was compiled for this text."""
        for code in self.program.codes:
            torch_private.forget_code(code)
        self.standing.forget(self.program.filename)
        self.last_compiler = None


@dataclass(frozen=True)
class CellResult:
    """A report, and what the cell raised (``None`` where it ended well)."""

    report: Report
    error: BaseException | None


def run_cell(  # noqa: PLR0913 - what one run needs, by keyword
    state: CellState,
    namespace: dict[str, Any],
    tracer: Tracer,
    names: HiddenNames,
    *,
    mode: Mode,
    title: str,
    source: str,
    versions: tuple[tuple[str, str], ...] = (),
    told: Callable[[str], object] | None = None,
    watcher: Watcher | None = None,
) -> CellResult:
    """Run every segment in order, as a plain cell would, and record what happened.

    Never raises what the cell raises: the error comes back beside the report, so that a cell that
    fails half-way still has one. ``source`` is the text under today's magic line; ``told`` hears
    what is being compiled, and ``watcher`` of every graph call (``Run``).
    """
    program = state.program
    run = Run(cell_file=program.filename, told=told, watcher=watcher, codes=program.statement_codes)
    backend = tracer.compiler.name if tracer.compiler else ""
    forget_stale()
    error: BaseException | None = None
    started = time.perf_counter()
    try:
        with Recording(run), tracer.surroundings():
            run_traced(program, namespace, tracer, names)
    except BaseException as raised:  # noqa: BLE001 - handed to the caller, interrupts too
        error = raised
    seconds = time.perf_counter() - started
    if tracer.compiler is not None:
        state.last_compiler = tracer.compiler
    if mode != "run":
        state.standing.keep(run, backend)
    facts = RunFacts(
        mode=mode,
        backend=backend,
        title=title,
        cell=CodeBlock(title, program.filename, 1, source),
        seconds=seconds,
        error=_one_line(error),
        interrupted=isinstance(error, KeyboardInterrupt),
        versions=versions,
        refused=tracer.fullgraph and torch_private.is_refusal(error),
        stopped_at=_cells_line(error, program.filename),
    )
    return CellResult(build_report(run, facts, state.standing.reached(run, backend)), error)


def run_traced(
    program: CellProgram,
    namespace: dict[str, Any],
    tracer: Tracer,
    names: HiddenNames,
    region: int | None = None,
) -> None:
    """Run every segment under Dynamo, with no record of it.

    ``region`` keeps the compiled code apart (``torch_private.new_region``).
    """
    stepper = Stepper(tracer, namespace, region)
    for segment in program.segments:
        block = segment.block
        if block is None or not reaches_tensors(block.code, namespace):
            for statement in segment.plain:
                _run_plain(statement, program.filename, namespace)
            continue
        with names.present():
            value = stepper.run(block)
        if segment.displays:
            sys.displayhook(value)


def run_plainly(program: CellProgram, namespace: dict[str, Any]) -> None:
    """Run every statement as a plain cell does."""
    for segment in program.segments:
        for statement in segment.plain:
            _run_plain(statement, program.filename, namespace)


def _run_plain(statement: PlainStatement, filename: str, namespace: dict[str, Any]) -> None:
    code = statement.code
    if code is None:
        # Python refuses this statement; a plain cell meets that only when its turn comes.
        code = compile(statement.tree, filename, statement.mode)  # type: ignore[call-overload]
    exec(code, namespace)  # noqa: S102 - running the user's cell is what this is for


def _cells_line(error: BaseException | None, filename: str) -> int:
    """The line of the cell's own code that an error went through, or 0."""
    # As it is raised, what resumes the cell after a break is under the line that broke.
    shown = users_traceback(error.__traceback__ if error is not None else None, filename)
    entries = traceback.walk_tb(shown)
    return next((line for frame, line in entries if frame.f_code.co_filename == filename), 0)


def _one_line(error: BaseException | None) -> str:
    if error is None:
        return ""
    text = ""
    with contextlib.suppress(Exception):
        text = str(error).strip().split("\n", 1)[0]
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
