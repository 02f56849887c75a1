"""One run of a cell program in the user's namespace, and the report of it."""

import sys
import time
import traceback
import weakref
from collections.abc import MutableMapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from dynamo_ext.capture.cells import parameters
from dynamo_ext.capture.cells.block_runner import Stepper
from dynamo_ext.capture.cells.call_trial import CallTrial, call_trial, note
from dynamo_ext.capture.cells.missing_names import forget_on_the_way_to, leave_out_missing_name
from dynamo_ext.capture.cells.program import CellProgram, Segment
from dynamo_ext.capture.cells.turn_trial import Trials
from dynamo_ext.capture.cells.user_traceback import users_traceback
from dynamo_ext.capture.code.replaced_methods import forget_stale, watch_changed
from dynamo_ext.capture.code.tensor_reachability import reaches_tensors
from dynamo_ext.capture.listen import eager_frames, left_before, small_graphs
from dynamo_ext.capture.listen.graph_recorder import RecordedCompiler
from dynamo_ext.capture.listen.run_log import Left, Recording, RunLog
from dynamo_ext.capture.report.builder import build_report
from dynamo_ext.capture.torch_private import code_cache, compile_metrics
from dynamo_ext.errors import one_line
from dynamo_ext.records.autotune import EndToEnd
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.report import Report
from dynamo_ext.timing.first_run import FirstRun, within
from dynamo_ext.timing.machine_load import MachineLoad


class Check(Protocol):
    """What is checked of a cell under one compiler before it runs."""

    def before(self, run: RunLog) -> object:
        """Run the cell as often as that takes; its namespace is as before afterwards."""

    def record(self, run: RunLog, report: Report) -> EndToEnd | None:
        """What it came to, for the report of the run."""


@dataclass
class CellState:
    """A program, the compiler that ``run`` reuses and the seconds of its last run, its check.

    ``trials`` and ``calls`` are the last run's, of its loops' turns and of its graphs' calls.
    ``spent`` are seconds that its runs took to compile and race, by backend. ``left`` has what its
    runs leave to Python (``RunLog.left``), by compiler (a backend with its options) and by the
    number of ``parameters``.
    """

    program: CellProgram
    last_compiler: RecordedCompiler | None = None
    check: Any = None
    given: FirstRun | None = None
    trials: Trials | None = None
    calls: CallTrial | None = None
    spent: dict[str, float] = field(default_factory=dict)
    left: MutableMapping[RecordedCompiler, dict[int, MutableMapping[Any, Left]]] = field(
        default_factory=weakref.WeakKeyDictionary
    )

    def release(self) -> None:
        """Let go of everything that was compiled for this text."""
        for code in self.program.codes:
            code_cache.forget_code(code)
        eager_frames.forget(self.program.filename)
        self.last_compiler = self.check = self.given = self.trials = self.calls = None
        self.spent.clear()
        self.left.clear()


def run_cell(
    state: CellState, stepper: Stepper, run: RunLog, facts: Report, check: Check | None = None
) -> tuple[Report, BaseException | None]:
    """Run every segment in order, as a plain cell would, and record in ``run`` what happened.

    What the cell raises comes back beside the report, ``None`` where it ended well. ``facts`` has
    what is known before. ``check`` comes before the run, and is in the report. Where ``run``
    decides, turns of loops that are not faster captured stay Python, and what is called often for
    little.
    """
    program, tracer = state.program, stepper.tracer
    forget_stale()
    size = 0
    if tracer.compiler is not None and (run.decides or facts.mode == "run"):
        size = parameters.count(program, stepper.namespace)
        left = state.left.setdefault(tracer.compiler, {})
        run.left = left.setdefault(size, weakref.WeakKeyDictionary())
    calls: CallTrial | None = None
    error: BaseException | None = None
    debugger = sys.gettrace()
    company = MachineLoad()
    started = time.perf_counter()
    try:
        with (
            company,
            within(state.given or FirstRun()),
            Recording(run),
            tracer.surroundings(),
            small_graphs.left_in_python(run),
        ):
            if check is not None:
                check.before(run)
            calls = _trials(state, stepper, run, size)
            run_traced(program, stepper)
    except BaseException as raised:  # noqa: BLE001 - handed to the caller, interrupts too
        error = raised
    took = time.perf_counter() - started
    if isinstance(error, KeyboardInterrupt):
        # Raising it in the line that was compiled has taken that away.
        sys.settrace(debugger)
    _forget_what_another_run_makes(run, company.cores)
    if tracer.compiler is not None:
        state.last_compiler = tracer.compiler
    if state.trials is not None:
        note(calls, run, started, company.cores)
        small_graphs.leave_to_python(run)
        state.trials.keep_left(left_before.to_remember(run))
        state.trials.save(company.cores)
    if facts.mode == "optimize":
        eager_frames.update(run, facts.backend)
    facts = replace(
        facts,
        seconds=took,
        compile_seconds=run.compile_seconds,
        busy_cores=company.cores,
        error=one_line(error, with_type=True) if error is not None else "",
        interrupted=isinstance(error, KeyboardInterrupt),
        refused=tracer.fullgraph and compile_metrics.is_refusal(error),
        stopped_at=_cells_line(error, program.filename),
    )
    missing = leave_out_missing_name(run, error)
    known = facts.mode != "explain"
    before = eager_frames.reachable_from(run, facts.backend) if known else ()
    report = build_report(run, facts, before)
    if check is not None:
        report = replace(report, end_to_end=check.record(run, report))
    if missing:
        # Dynamo would skip this code for good, also once the name is defined.
        state.release()
        forget_on_the_way_to(error)
    return report, error


def _trials(state: CellState, stepper: Stepper, run: RunLog, size: int) -> CallTrial | None:
    """Begin the trials of a run that decides by them; that of its graphs' calls."""
    former, state.trials = state.trials, None
    compiler = stepper.tracer.compiler
    if not run.decides or compiler is None:
        return None
    state.trials = stepper.trials = trials = Trials(state.program.source, compiler, size, former)
    run.left_before = lambda: trials.left
    same = former is not None and former.place == state.trials.place
    state.calls = call_trial(state.trials, compiler.name, run, state.calls if same else None)
    return state.calls


def _forget_what_another_run_makes(run: RunLog, busy_cores: float) -> None:
    """Forget graphs that are unfinished, and what was timed while so many cores were busy."""
    if busy_cores >= BUSY_CORES:
        for entry in run.calls:
            entry.paired.clear()
    for code in (entry.frame.code() for entry in run.calls if entry.journal.unfinished):
        if code is not None:
            code_cache.forget_code(code)


def run_traced(program: CellProgram, stepper: Stepper) -> None:
    """Run every segment under Dynamo, with no record."""
    namespace = stepper.namespace
    for segment in program.segments:
        block = segment.block
        if block is None or not reaches_tensors(block.code, namespace):
            _run_plain(segment, program.filename, namespace)
            watch_changed()
            continue
        with stepper.names.present():
            value = stepper.run(block)
        if segment.displays:
            sys.displayhook(value)


def run_plainly(program: CellProgram, namespace: dict[str, Any]) -> None:
    """Run every statement as a plain cell does."""
    for segment in program.segments:
        _run_plain(segment, program.filename, namespace)


def _run_plain(segment: Segment, filename: str, namespace: dict[str, Any]) -> None:
    for each in segment.plain:
        # Python refuses some statements; a plain cell meets that only when their turn comes.
        code = each.code or compile(each.tree, filename, each.mode)  # type: ignore[call-overload]
        exec(code, namespace)  # noqa: S102 - running the user's cell is what this is for


def _cells_line(error: BaseException | None, filename: str) -> int:
    """The line of the cell's own code that an error went through, or 0."""
    # As it is raised, what resumes the cell after a break is under the line that broke.
    shown = users_traceback(error.__traceback__ if error is not None else None, filename)
    entries = traceback.walk_tb(shown)
    return next((line for frame, line in entries if frame.f_code.co_filename == filename), 0)
