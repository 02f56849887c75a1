"""One candidate made ready: compiled by its first call, checked, and fit to be timed."""

import time
import types
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from dynamo_ext import errors
from dynamo_ext.analysis.placement import coverage, lowered_operations
from dynamo_ext.backends import precision, registry
from dynamo_ext.capture import session
from dynamo_ext.capture.listen import run_log
from dynamo_ext.capture.listen import tracer as tracing
from dynamo_ext.capture.listen.graph_recorder import RecordedCompiler, forget_recorded
from dynamo_ext.capture.report.builder import build_report
from dynamo_ext.capture.torch_private import regions
from dynamo_ext.interruptions import failures
from dynamo_ext.measure.accuracy import Results
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.workload import Workload
from dynamo_ext.records.common import FULL
from dynamo_ext.records.comparison import Accuracy, CandidateResult, Outcome
from dynamo_ext.records.report import Report
from dynamo_ext.timing import clock, first_run
from dynamo_ext.timing.race import TimedCallable

WARM_UPS = 2
"""Calls after the first, in which a size that changes may still become symbolic."""

SETTLING = 40.0
"""Seconds of further calls in which a backend may settle what it runs, at most."""


@dataclass
class CompiledCandidate:
    """A candidate on its way through a comparison.

    ``call`` runs the code on the candidate; ``results`` are copies of what the first call gave,
    and ``wrong`` says what is wrong with them.
    """

    candidate: Candidate
    call: Callable[[], object] | None = None
    timed: TimedCallable | None = None
    results: Results | None = None
    report: Report | None = None
    first_call_seconds: float = 0.0
    call_seconds: float = 0.0
    runs: int = 0
    peak_bytes: int | None = None
    accuracy: list[Accuracy] = field(default_factory=list)
    wrong: str = ""
    failure: str = ""
    remedy: str = ""
    warm_ups: int = WARM_UPS
    unmeasured: str = "Stopped before its turn."
    region: int = -1
    heard: RecordedCompiler | None = None
    codes: list[weakref.ref[types.CodeType]] = field(default_factory=list)

    def compile(
        self,
        workload: Workload,
        on_doing: Callable[[str], object] | None = None,
        check_on: Sequence[Any] = (),
    ) -> None:
        """Make the first call, which compiles, and those after it that may compile again.

        Whatever the candidate raises becomes ``failure``. ``on_doing`` gets what its backend says
        it does, and an empty text at the end of that. Where int8 may be computed, other inputs
        calibrate it before.
        """
        candidate, compiler = self.candidate, self.candidate.compiler
        if candidate.call is not None:
            self._first_calls(candidate.call, workload)
            return
        if compiler is None:
            self.failure = candidate.availability.reason
            self.remedy = candidate.availability.remedy
            return
        self.region = regions.new_region()
        tracer = tracing.optimizing(compiler, names=workload.names)
        self.heard = tracer.compiler
        call = workload.compiled_call(tracer, self.region)
        run = run_log.RunLog(on_doing=on_doing)

        def calibrate() -> None:
            workload.calibrate(call, check_on)
            # These calls do not count.
            run.count_again()

        bounded = candidate.precision == FULL and candidate.bound is not None
        lowers = check_on and (bounded or candidate.precision == "int8")
        try:
            with run_log.Recording(run), tracer.surroundings():
                self._first_calls(call, workload, calibrate if lowers else None)
        finally:
            self.codes = [entry.code for entry in run.compiled]
        facts = Report(
            "optimize",
            compiler.name,
            workload.title,
            None,
            self.first_call_seconds,
            run.compile_seconds,
            error=self.failure,
            versions=session.versions(),
        )
        self.report = build_report(run, facts)

    def _first_calls(
        self,
        call: Callable[[], object],
        workload: Workload,
        calibrate: Callable[[], object] | None = None,
    ) -> None:
        try:
            workload.restore()
            started = time.perf_counter()
            if calibrate is not None:
                calibrate()
            self.runs += 1
            call()
            self.call_seconds = self.first_call_seconds = time.perf_counter() - started
            self.results = workload.results()
            given, again = first_run.current(), lambda: (workload.restore(), call())
            for _ in range(min(self.warm_ups, 1) if given.used_up() else self.warm_ups):
                workload.restore()
                self.runs += 1
                started = time.perf_counter()
                call()
                self.call_seconds = time.perf_counter() - started
            settle(self.candidate.compiler, again, min(SETTLING, given.left))
            self.call = call
        except failures() as error:  # a failing candidate is a row with its reason
            self.failure = one_line(error)
        finally:
            workload.restore(thorough=True)

    def make_timed(self, workload: Workload) -> TimedCallable | None:
        """What takes part in the race."""
        if self.call is not None:
            before = None if workload.repeatable else workload.restore
            wait = clock.device_barrier()
            self.timed = TimedCallable(self.candidate.name, self.call, before, wait)
        return self.timed

    def release(self) -> None:
        """Let go of what was compiled for this candidate, and of nothing else."""
        for code in filter(None, (reference() for reference in self.codes)):
            regions.forget_region(code, self.region, self.heard)
        forget_recorded(self.candidate.compiler)
        self.call = self.timed = None

    def row(self, base: TimedCallable | None) -> CandidateResult:
        """The candidate's row; its speedup is over ``base``."""
        report, timed = self.report, self.timed
        covered = coverage(report) if report is not None else None
        outcome, reason, remedy = self._outcome()
        return CandidateResult(
            name=self.candidate.name,
            backend=self.candidate.backend,
            outcome=outcome,
            reason=reason,
            remedy=remedy,
            timing=timed.timing if timed else None,
            speedup=timed.speedup_over(base) if timed and base else None,
            first_call_seconds=self.first_call_seconds,
            compile_seconds=report.compile_seconds if report else 0.0,
            peak_bytes=self.peak_bytes,
            operations=covered.total if covered else 0,
            in_engine=covered.in_engine if covered else 0,
            graphs=len(report.graphs) if report else 0,
            breaks=sum(each.count for each in report.breaks) if report else 0,
            fallbacks=len(report.fallbacks) if report else 0,
            accuracy=tuple(self.accuracy),
            options=self.candidate.options,
            program=registry.program_line(self.candidate.compiler),
            precision=self._precision(),
            lowered=self._lowered(),
            report=report,
        )

    def _precision(self) -> str:
        """What it was asked to compute in, or what backends compute in that won its graphs."""
        graphs = self.report.graphs if self.report is not None else ()
        won = {precision.behind(graph.contest.winner) for graph in graphs if graph.contest}
        if won - {FULL}:
            return "+".join(sorted(won))
        return self.candidate.precision if self.candidate.backend else ""

    def _lowered(self) -> float | None:
        """Operations of products that one run computes in a lower precision."""
        if self.report is None or self._precision() in ("", FULL) or self.failure:
            return None
        found = lowered_operations(self.report)
        return None if found is None else found / self.runs

    def _outcome(self) -> tuple[Outcome, str, str]:
        raced = self.timed.error if self.timed is not None else None
        timed = self.timed is not None and bool(self.timed.samples)
        if self.candidate.compiler is None and self.candidate.call is None:
            return "unavailable", self.failure, self.remedy
        if self.failure or raced is not None:
            return "failed", self.failure or one_line(raced), self.remedy
        if self.wrong:
            told = self.report.fallbacks if self.report is not None else ()
            drawn = next((each for each in told if each.stage == "random"), None)
            if drawn is not None:
                return "wrong", f"{self.wrong} {drawn.message}", drawn.remedy
            return "wrong", self.wrong, ""
        if self.report is not None and not coverage(self.report).in_engine:
            return "eager", *why_eager(self.report)
        return ("measured", "", "") if timed else ("unmeasured", self.unmeasured, self.remedy)


def settle(backend: Any, call: Callable[[], object], seconds: float) -> None:
    """Call until ``backend.unsettled_calls`` no longer changes, for ``seconds`` at most.

    Not at all where the backend or compiler has no such count.
    """
    until = time.perf_counter() + seconds
    seen = 0
    while (calls := getattr(backend, "unsettled_calls", 0)) != seen and time.perf_counter() < until:
        seen = calls
        call()


def why_eager(report: Report) -> tuple[str, str]:
    """Why nothing ran in the engine, and the remedy."""
    kept_out = next((each for each in report.fallbacks if each.scope == "run"), None)
    if kept_out is not None:
        return kept_out.message, kept_out.remedy
    if not report.graphs:
        reasons = [frame.reason for frame in report.frames if frame.reason]
        return (reasons[0] if reasons else "Dynamo captured no graph."), ""
    # A part that was given up whole says more than an operation that was left out of it.
    for fallback in sorted(report.fallbacks, key=lambda each: (bool(each.operator), -each.count)):
        text = fallback.message or fallback.exception
        what = f"{fallback.operator}: " if fallback.operator else ""
        return f"{what}{text}".splitlines()[0], fallback.remedy
    return "This backend runs the captured graph as it is.", ""


def one_line(error: Any) -> str:
    """An exception in one line."""
    line = errors.one_line(error, with_type=True)
    # As in Dynamo's "backend='tvm' raised:", after which comes what it raised.
    return " ".join([line, *errors.lines(error)[1:2]]) if line.endswith(":") else line
