"""The state of the magics in one shell: programs, the default backend, the last report."""

import argparse
import contextlib
import dataclasses
import functools
import math
import os
import sys
import time
from typing import Any, cast

import torch
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import display

from dynamo_ext.analysis.speed import spent
from dynamo_ext.backends import crash_records, registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.capture import session
from dynamo_ext.capture.cells.block_runner import Stepper
from dynamo_ext.capture.cells.program import CellProgram, build_program
from dynamo_ext.capture.cells.program_cache import ProgramCache
from dynamo_ext.capture.cells.runner import CellState, run_cell, run_plainly
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.source_lines import name_cells_by
from dynamo_ext.capture.listen import tracer as tracing
from dynamo_ext.capture.listen.graph_recorder import recorded
from dynamo_ext.capture.listen.run_log import RunLog
from dynamo_ext.capture.listen.tracer import Tracer
from dynamo_ext.errors import CellError, DynamoExtError, LastingEffectError, UnknownBackendError
from dynamo_ext.magics.argument_errors import refuse
from dynamo_ext.magics.arguments import check_output_name, seconds
from dynamo_ext.magics.cell_errors import show_as, show_error, show_syntax_error
from dynamo_ext.magics.cell_source import CellText, cell_names, read_cell, runs_silently
from dynamo_ext.magics.plain_runs import PlainRuns
from dynamo_ext.magics.resolve_backend import choose, torchs_default
from dynamo_ext.magics.run_history import PastRuns
from dynamo_ext.measure.operation_profiler import OperationTimes
from dynamo_ext.measure.paired_calls import PairedCalls
from dynamo_ext.measure.progress import reporting_to
from dynamo_ext.records.common import CodeBlock
from dynamo_ext.records.report import Report
from dynamo_ext.timing.first_run import ENVIRONMENT, FirstRun, usual_seconds
from dynamo_ext.torch_private import version
from dynamo_ext.widgets.backends import render_backends
from dynamo_ext.widgets.progress import LOADING_PATIENCE, Waiting
from dynamo_ext.widgets.report.static import ReportPart
from dynamo_ext.widgets.report.summary import refusal
from dynamo_ext.widgets.report.view import display_report
from dynamo_ext.widgets.runs import history, side_by_side


class Workbench:
    """One shell's state. Made when the first cell needs it, since it loads torch."""

    def __init__(self, shell: InteractiveShell, plain_runs: PlainRuns) -> None:
        self._shell = shell
        self._plain_runs = plain_runs
        self._programs = ProgramCache()
        self._names = HiddenNames(shell.user_ns)
        self._past = PastRuns()
        name_cells_by(cell_names(shell))
        # A kernel's control thread sets this when it is asked to shut down or to restart.
        shell.observe(crash_records.end_all, "exit_now")
        self._is_off = False
        # What `%dynamo use` chose; without it cells use what torch.compile does.
        self.default = ""
        # What making this took, for the report of the cell that needed it first.
        self.loads: tuple[tuple[str, float], ...] = ()

    def run_cell(
        self,
        line: str,
        body: str,
        arguments: argparse.Namespace,
        waiting: Waiting,
        *,
        silent: bool = False,
    ) -> None:
        """Run a cell, show the report, raise what it raises; ``silent``: its value is not shown.

        ``waiting`` says what takes long, and goes before the report.
        """
        if not body.strip():
            msg = "There is no code in this cell."
            raise CellError(msg, "Put the code to run under the %%dynamo line.")
        plain = self._is_off and arguments.mode != "explain"
        try:
            text = read_cell(self._shell, line, body, silent=silent)
            state = (
                CellState(self._build(text))
                if plain or arguments.mode == "explain"
                else self._programs.find(text.key, text.cell_id, lambda: self._build(text))
            )
        except SyntaxError as error:
            show_syntax_error(self._shell, error)
            return
        if plain:
            self._run_plainly(text, state.program)
            return
        check_output_name(arguments.output, self._shell.user_ns, state.program.stored_names)
        quiet = arguments.quiet or runs_silently(self._shell)
        if not quiet:
            waiting.tell("loading the backend", LOADING_PATIENCE)
        started = time.perf_counter()
        tracer = self._tracer(arguments, state)
        took = time.perf_counter() - started
        waiting.tell("")
        check = self._check(arguments, state, tracer)
        tracer = tracer if check is None else check.tracer
        if arguments.mode == "optimize":
            session.remember_compiler(tracer.compiler)
        text.name_for_tracebacks(state.program.filename)
        given = state.given = FirstRun(self._seconds(arguments, tracer), before=state.given)
        given.loaded_before(took + sum(seconds for _, seconds in self.loads))
        waiting.spent = lambda: (given.spent, given.seconds)
        run = RunLog(
            cell_file=state.program.filename,
            codes=state.program.statement_codes,
            on_progress=(lambda _: None) if quiet else waiting.tell,
            on_graph_call=OperationTimes(waiting.tell) if arguments.profile else None,
            after_graph_call=(lambda *_: None) if arguments.mode == "explain" else PairedCalls(),
            decides=_decides(arguments),
        )
        title, backend = f"Cell In[{text.number}]", tracer.compiler.name if tracer.compiler else ""
        facts = Report(
            arguments.mode,
            backend,
            title,
            CodeBlock(title, state.program.filename, 1, text.source),
            seconds=0.0,
            compile_seconds=0.0,
            versions=session.versions(),
            loads=(*self.loads, (backend, took)),
            line=line.strip(),
            program=registry.program_line(
                getattr(tracer.compiler, "compiler", None), arguments.dynamic
            ),
            plain_runs=self._plain_runs.of_text(body),
        )
        with waiting, reporting_to(None if quiet else waiting.show):
            stepper = Stepper(tracer, self._shell.user_ns, self._names)
            report, raised = run_cell(state, stepper, run, facts, check)
        report = dataclasses.replace(report, spent_before=state.spent.get(backend, 0.0))
        state.spent[backend] = spent(report)
        session.remember_report(report)
        self._past.keep(text.number, text.cell_id, report)
        if arguments.output is not None:
            self._shell.user_ns[arguments.output] = report
        if not quiet:
            display_report(report, brief=True)
        if raised is not None and report.refused:
            said = refusal(report) if quiet else "The report says why --fullgraph refused."
            show_as(raised, said)
            raise raised
        if raised is not None and not show_error(self._shell, raised, state.program.filename):
            raise raised

    def _run_plainly(self, text: CellText, program: CellProgram) -> None:
        print("%dynamo off: this is a plain cell.")  # noqa: T201 - in place of a report
        text.name_for_tracebacks(program.filename)
        try:
            run_plainly(program, self._shell.user_ns)
        except BaseException as error:
            if not show_error(self._shell, error, program.filename):
                raise

    def _build(self, text: CellText) -> CellProgram:
        return build_program(
            text.source,
            text.register(),
            cast("Any", self._shell.compile),
            interactivity=cast("Any", text.interactivity),
            transform=self._shell.transform_ast,
        )

    def _tracer(self, arguments: argparse.Namespace, state: CellState) -> Tracer:
        if arguments.mode == "run" and arguments.backend is None:
            return tracing.reusing(state.last_compiler or session.last_compiler())
        backend = arguments.backend or self.default or torchs_default()
        compiler = choose(backend, self._shell.user_ns, arguments.options, strict=arguments.strict)
        if arguments.mode == "run":
            last = state.last_compiler
            same = last is not None and _alike(last.compiler, compiler)
            return tracing.reusing(last if same else recorded(compiler))
        return self._optimizing(compiler, arguments)

    def _optimizing(self, compiler: Any, arguments: argparse.Namespace) -> Tracer:
        return tracing.optimizing(
            compiler,
            dynamic=arguments.dynamic,
            fullgraph=arguments.fullgraph,
            names=self._names,
            alone=arguments.mode == "explain",
        )

    @staticmethod
    def _seconds(arguments: argparse.Namespace, tracer: Tracer) -> float:
        """What may go into compiling; without end where the cell asks for all of it."""
        whole = arguments.fullgraph or arguments.mode == "explain"
        if arguments.first_run is not None or whole or arguments.accuracy or arguments.check_on:
            return math.inf if arguments.first_run is None else arguments.first_run
        if asked := os.environ.get(ENVIRONMENT):
            return seconds(ENVIRONMENT, asked)
        return usual_seconds(tracer.compiler.name) if tracer.compiler else math.inf

    def _check(self, arguments: argparse.Namespace, state: CellState, tracer: Tracer) -> Any:
        """What ``--accuracy`` and ``--check-on`` do before the cell runs, if anything."""
        wanted = arguments.accuracy or arguments.check_on
        if not wanted or arguments.mode == "run":
            return None
        from dynamo_ext.magics.accuracy_check import check_before

        traced = functools.partial(self._optimizing, arguments=arguments)
        return check_before(state, self._shell.user_ns, self._names, tracer, arguments, traced)

    def compare_cell(
        self, line: str, body: str, arguments: argparse.Namespace, waiting: Waiting
    ) -> None:
        """Measure one cell on several backends; raise what the cell itself raises."""
        from dynamo_ext.magics.compare_cell import compare_cell

        try:
            text = read_cell(self._shell, line, body)
            program = self._build(text)
        except SyntaxError as error:
            show_syntax_error(self._shell, error)
            return
        if not program.segments:
            msg = "There is no code in this cell."
            raise CellError(msg, "Put the code to measure under the %%dynamo compare line.")
        check_output_name(arguments.output, self._shell.user_ns, program.stored_names)
        text.name_for_tracebacks(program.filename)
        quiet = arguments.quiet or runs_silently(self._shell)
        try:
            with waiting, reporting_to(waiting.show, None if quiet else waiting.announce):
                result = compare_cell(self._shell, text, program, self._names, arguments)
        except LastingEffectError as error:
            command = f"%%dynamo {line.strip()}"
            raise error.with_commands(command) from None
        except (Exception, KeyboardInterrupt) as error:
            if isinstance(error, (UsageError, DynamoExtError)):
                raise
            if not show_error(self._shell, error, program.filename):
                raise
            return
        if arguments.output is not None:
            self._shell.user_ns[arguments.output] = result
        if not quiet:
            from dynamo_ext.widgets.comparison.view import display_comparison

            display_comparison(result.record, use=self.use_command)
        if result.record.interrupted:
            # One line stops "Run All", and shows none of our frames.
            interrupt = KeyboardInterrupt("the comparison is partial")
            show_as(interrupt, "the comparison shown above is partial.")
            raise interrupt

    def backends_command(self, name: str | None = None) -> None:
        """``%dynamo backends [NAME]``."""
        display(render_backends(registry.describe(name)))
        lost = [f"{reason} {version.REMEDY}" for reason in version.switched_off()]
        sys.stdout.writelines(f"{line}\n" for line in [*lost, version.unseen()] if line)

    def report_command(self, form: str = "") -> None:
        """``%dynamo report [--markdown]``."""
        if form not in {"", "--markdown"}:
            refuse("report", f"%dynamo report {form} is not known.")
        if form:
            sys.stdout.write(session.last_report().to_markdown())
        else:
            display_report(session.last_report())

    def part_command(self, name: str) -> None:
        """``%dynamo graphs|guards|breaks|fallbacks``: one part of the last report."""
        display(ReportPart(session.last_report(), name))

    def history_command(self) -> None:
        """``%dynamo history``."""
        display(history(self._past.reports()))

    def diff_command(self, *words: str) -> None:
        """``%dynamo diff [BEFORE AFTER]``."""
        display(side_by_side(*self._past.pair(words)))

    def reset_command(self) -> str:
        """``%dynamo reset``."""
        self._forget_compiled()
        self._names.forget()
        self._past.clear()
        backend = self.default or torchs_default()
        name = getattr(backend, "__name__", backend)
        return f"Everything compiled is forgotten; the default backend is {name}."

    def off_command(self) -> str:
        """``%dynamo off``."""
        self._is_off = True
        return "%%dynamo cells are plain cells until %dynamo on."

    def on_command(self) -> str:
        """``%dynamo on``."""
        self._is_off = False
        return "%%dynamo cells are captured."

    def use_command(self, backend: str) -> str:
        """``%dynamo use BACKEND``: the default for later cells; what to tell the user."""
        compiler = choose(backend, self._shell.user_ns, {}, strict=False)
        self.default = backend
        said = [f"%%dynamo cells now use {getattr(compiler, 'name', backend)}."]
        with contextlib.suppress(UnknownBackendError):
            [info] = registry.describe(backend)
            lack = info.availability
            if not lack.available:
                said.append(f"It is not available: {lack.reason} {lack.remedy}".rstrip())
        return "\n".join(said)

    def close(self) -> None:
        """Let go of everything compiled for this shell's cells."""
        self._shell.unobserve(crash_records.end_all, "exit_now")
        self._forget_compiled()
        self._names.close()

    def _forget_compiled(self) -> None:
        self._programs.clear()
        # Functions of the notebook may have compiled versions too, which need the hidden names.
        torch.compiler.reset()


def _decides(arguments: argparse.Namespace) -> bool:
    """Whether turns of loops that are not faster captured may stay Python."""
    shows = arguments.fullgraph or arguments.profile or arguments.capture == "all"
    asked = arguments.options.get("random") == "torch"
    alike = not torch.are_deterministic_algorithms_enabled()
    return arguments.mode == "optimize" and alike and not (shows or asked)


def _alike(one: Any, other: Any) -> bool:
    """Whether two compilers are one, or one is a copy that ``--check-on`` has calibrated."""
    return one is other or (type(one) is type(other) is Compiler and vars(one) == vars(other))
