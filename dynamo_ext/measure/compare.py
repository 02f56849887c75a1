"""A comparison from end to end: rehearse, compile each, check each, race all, put all back."""

from __future__ import annotations

import contextlib
import dataclasses
import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.backends.pipeline import compile_timeout
from dynamo_ext.capture import session
from dynamo_ext.errors import OptionError
from dynamo_ext.interruptions import pass_on, suppressed
from dynamo_ext.measure import accuracy, candidate_run, memory, per_graph
from dynamo_ext.measure.candidate_run import CompiledCandidate
from dynamo_ext.measure.settings import Settings, Show
from dynamo_ext.measure.state.precision import precision
from dynamo_ext.measure.state.side_effects import Effects
from dynamo_ext.measure.state.snapshot import Snapshot
from dynamo_ext.records.comparison import FEWEST_ROUNDS, CandidateResult, Comparison, Speedup
from dynamo_ext.timing.machine_load import MachineLoad
from dynamo_ext.timing.race import Plan, Progress, TimedCallable, race

if TYPE_CHECKING:
    from dynamo_ext.measure.accuracy import Results
    from dynamo_ext.measure.candidates import Candidate
    from dynamo_ext.measure.workload import Workload
    from dynamo_ext.records.common import CodeBlock

_LAZY = (
    "A lazy module is called for the first time here: what a run changes is put back, so each run "
    "would be a first call, which is plain Python."
)
_CALL_FIRST = "Call the module once, then compare."


def compare_workload(
    workload: Workload,
    candidates: list[Candidate],
    settings: Settings,
    *,
    cell: CodeBlock | None = None,
    progress: Show | None = None,
) -> Comparison:
    """Measure candidates on a workload; see ``Comparison`` for what comes of it.

    An interrupt ends the measuring and keeps what there is (``partial``); everything the workload
    reaches is as before in any case.

    Raises
    ------
    OptionError
        Where the code initialises a lazy module, which is put back as it was.
    Exception
        What the code itself raises when it runs plainly.
    """
    made = _Comparing(workload, candidates, settings, progress)
    return made.run(cell)


class _Comparing:
    """One comparison under way."""

    def __init__(
        self, workload: Workload, listed: list[Candidate], settings: Settings, show: Show | None
    ) -> None:
        self._workload = workload
        self._settings = settings
        self._progress = show
        self._compiled = [CompiledCandidate(candidate) for candidate in listed]
        self._notes: list[str] = []
        self._base: TimedCallable | None = None
        self._base_peak: int | None = None
        self._base_first = 0.0
        self._eager: Results = {}
        self._exact: Results | None = None
        self._graphs: per_graph.Found = per_graph.Found()
        self._started = time.perf_counter()
        self._short = False

    def run(self, cell: CodeBlock | None) -> Comparison:
        workload, settings = self._workload, self._settings
        interrupted = False
        try:
            with workload.suppress_output():
                self._rehearse()
                single = self._eager
                try:
                    patient = compile_timeout.allowing(settings.compile_budget)
                    with _held_in(workload, settings.dtype), patient:
                        self._measure(single)
                except KeyboardInterrupt:
                    interrupted = True
        finally:
            workload.close()
        record = self._record(cell, interrupted=interrupted)
        for each in self._compiled:
            each.release()
        return record

    def _rehearse(self) -> None:
        """Run the code as it is once: its results, what it changes, what it cannot take back."""
        workload = self._workload
        self._tell("eager", "the code as it is")
        workload.restore()
        with Effects() as effects:
            started = time.perf_counter()
            workload.eager_call()()
            self._base_first = time.perf_counter() - started
        if any(each.initialized for each in workload.snapshot.uninitialized):
            raise OptionError(_LAZY, _CALL_FIRST)
        self._eager = workload.results()
        changed = workload.restore(thorough=True)
        lasting = bool(workload.snapshot.unrestorable or effects.seen)
        workload.repeatable = not (changed or lasting or self._settings.train)
        for lost in workload.snapshot.unrestorable[:5]:
            self._notes.append(f"{lost} cannot be put back between runs.")
        if effects.seen:
            said = "; ".join(effects.seen[:5])
            self._notes.append(f"Each run of the code also {said}: that cannot be taken back.")

    def _measure(self, single: Results) -> None:
        workload, settings = self._workload, self._settings
        if settings.dtype:
            workload.eager_call()()
            self._eager = workload.results()
            workload.restore(thorough=True)
        if settings.fp64:
            self._exact = self._float64()
        self._compile(single if settings.dtype else None)
        self._base = candidate_run.timed_callable(
            settings.baseline, self._baseline_call(), workload
        )
        others = []
        for each in self._compiled:
            if each.candidate.name == settings.baseline:
                each.timed = self._base
            elif (entered := each.make_timed(workload)) is not None:
                others.append(entered)
        plan = Plan(settings.budget, settings.rounds, settings.seed)
        with MachineLoad() as company:
            self._short = race([self._base, *others], plan, progress=self._progress)
        if company.sentence:
            self._notes.append(company.sentence)
        if self._base.error is not None:
            self._stop_at(self._base)
        self._peaks()
        if settings.per_graph:
            self._graphs = per_graph.race_graphs(
                workload,
                [e.candidate for e in self._compiled if e.ready and e.candidate.compiler],
                self._base,
                settings,
                self._progress,
            )

    def _compile(self, single: Results | None) -> None:
        # What is compiled later is some 0.5 % faster, for where it is in memory: in an order
        # drawn again each time, no candidate's place in the list matters.
        draw = random.Random(self._settings.seed)  # noqa: S311 - a schedule
        for each in draw.sample(self._compiled, len(self._compiled)):
            self._tell(each.candidate.name, "compiling")
            each.compile(self._workload)
            if each.results is not None:
                self._check(each, each.results, single)
                each.results = None

    def _stop_at(self, base: TimedCallable) -> None:
        """The code itself failed in a later round: with some rounds done, they are kept."""
        error = base.error
        if error is None or len(base.samples) < FEWEST_ROUNDS:
            raise error or RuntimeError
        number = len(base.samples) + 1
        self._short = True
        self._notes.append(
            f"The code itself failed in round {number}: {candidate_run.one_line(error)}"
        )

    def _baseline_call(self) -> Callable[[], object]:
        name = self._settings.baseline
        for each in self._compiled:
            if each.candidate.name == name:
                if each.call is None:
                    message = f"The baseline {name} did not run: {each.failure}"
                    raise RuntimeError(message)
                return each.call
        return self._workload.eager_call()

    def _float64(self) -> Results:
        workload = self._workload
        workload.restore(thorough=True)
        try:
            with _held_in(workload, "float64"):
                workload.eager_call()()
                return workload.results()
        except Exception as error:  # noqa: BLE001 - not every code runs in float64
            pass_on(error)
            self._notes.append(f"The code does not run in float64: {candidate_run.one_line(error)}")
            return {}
        finally:
            workload.restore(thorough=True)

    def _check(self, each: CompiledCandidate, found: Results, single: Results | None) -> None:
        settings = self._settings
        reference = f"eager {settings.dtype}".strip()
        judged = accuracy.against(found, self._eager, reference)
        each.accuracy.append(judged)
        if single is not None:
            measured = accuracy.against(found, single, "eager float32")
            # Only the distance tells: the dtypes differ on purpose.
            each.accuracy.append(_without_verdict(measured))
        if not judged.within and self._exact is None:
            self._exact = self._float64()
        exact = self._exact or {}
        if not judged.within and not accuracy.as_good_as_eager(found, self._eager, exact):
            each.wrong = judged.detail
        if exact and (settings.fp64 or not judged.within):
            measured = accuracy.against_float64(found, self._eager, exact)
            each.accuracy.append(measured)
            if settings.fp64:
                each.wrong = each.wrong or measured.detail

    def _peaks(self) -> None:
        workload = self._workload
        plain = self._workload.eager_call()
        workload.restore()
        self._base_peak = memory.peak_of(plain)
        for each in self._compiled:
            if each.ready and each.call is not None and not (each.timed or self._base).error:  # type: ignore[union-attr]
                workload.restore()
                with suppressed(Exception):
                    each.peak_bytes = memory.peak_of(each.call)
        workload.restore(thorough=True)

    def _tell(self, name: str, what: str) -> None:
        if self._progress is not None:
            spent = time.perf_counter() - self._started
            self._progress(Progress(f"{name}: {what}", 0, 0, spent, self._settings.budget))

    def _record(self, cell: CodeBlock | None, *, interrupted: bool) -> Comparison:
        settings, base = self._settings, self._base
        rows = [each.row(self._speedup(each.timed)) for each in self._compiled]
        if all(row.name != settings.baseline for row in rows):
            rows.insert(0, self._baseline_row())
        return Comparison(
            title=self._workload.title,
            baseline=settings.baseline,
            candidates=tuple(rows),
            cell=cell,
            graphs=self._graphs.graphs,
            mix=self._graphs.mix,
            rounds=len(base.samples) if base else 0,
            seconds=time.perf_counter() - self._started,
            budget=settings.budget,
            seed=settings.seed,
            dtype=settings.dtype,
            train=settings.train,
            partial=interrupted or self._short,
            interrupted=interrupted,
            notes=tuple(self._notes),
            device=_device(self._workload.snapshot.tensors),
            threads=torch.get_num_threads(),
            versions=session.versions(),
        )

    def _baseline_row(self) -> CandidateResult:
        timing = self._base.timing if self._base else None
        return CandidateResult(
            name=self._settings.baseline,
            backend="",
            outcome="measured" if timing else "unmeasured",
            timing=timing,
            first_call_seconds=self._base_first,
            peak_bytes=self._base_peak,
        )

    def _speedup(self, contender: TimedCallable | None) -> Speedup | None:
        if contender is None or self._base is None:
            return None
        return contender.speedup_over(self._base, self._settings.seed)


@contextlib.contextmanager
def _held_in(workload: Workload, dtype: str) -> Iterator[None]:
    """Hold the workload's tensors in another precision, and start each run from there."""
    if not dtype:
        yield
        return
    full = workload.snapshot
    with precision(full.tensors, getattr(torch, dtype)):
        workload.snapshot = Snapshot(workload.roots)
        try:
            yield
        finally:
            workload.restore(thorough=True)
            workload.snapshot = full


def _without_verdict(measured: Any) -> Any:
    return dataclasses.replace(measured, within=True, detail="")


def _device(tensors: list[torch.Tensor]) -> str:
    for tensor in tensors:
        if tensor.is_cuda:
            return torch.cuda.get_device_name(tensor.device)
    return "cpu"
