"""A comparison from end to end: rehearse, compile each, check each, race all, put all back."""

import math
import random
import time
from collections.abc import Callable

import torch

from dynamo_ext.capture import session
from dynamo_ext.errors import LastingEffectError, OptionError
from dynamo_ext.interruptions import suppressed
from dynamo_ext.measure import accuracy, memory, per_graph
from dynamo_ext.measure.candidate_run import CompiledCandidate, one_line
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.machine_limits import measured
from dynamo_ext.measure.progress import Board, announce
from dynamo_ext.measure.result_check import ResultCheck, held_in
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.state.side_effects import WORKERS, effects
from dynamo_ext.measure.workload import Workload
from dynamo_ext.records.comparison import FEWEST_ROUNDS, Comparison, GraphComparison, Mix
from dynamo_ext.records.machine import Work
from dynamo_ext.timing import first_run
from dynamo_ext.timing.machine_load import MachineLoad
from dynamo_ext.timing.page_faults import KEEP_IT
from dynamo_ext.timing.race import Plan, TimedCallable, race
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.work import count_work, precision_of

_LAZY = (
    "A lazy module is called for the first time here: what a run changes is put back, so each run "
    "would be a first call, which is plain Python."
)
_NOTHING_LOWERED = "No candidate computes in a lower precision: the bound has judged none."
_BEYOND = (
    "The code changes a tensor that it reaches through {} alone, which is not put back: each run "
    "would begin with other values."
)
_NAME_IT = "Let the code name the tensor, or what holds it, as well: then it is put back."
_OTHERWISE = "Run again, the code gives other results ({}): {} not put back between runs."
_MAKE_IT = "Make it in the code itself, so that each run has a new one."
_STOPPED = (
    "A run of the code {}, and a comparison is hundreds of runs: it has stopped after the first."
)
_ALLOW = (
    "To compare it all the same, add allow_writes=True; to measure its graphs alone, add "
    "per_graph=True."
)
_PATIENCE = "Give first_run more seconds, or leave out a backend that takes long to compile."
_LATE = "There was no time left of the {:.0f} s that the comparison has at most."
_LONGER = "Give it more: --budget {0:.0f}, in Python budget={0:.0f}."
_COMPILING = 0.5
"""The share of the time left that goes into compiling, at most."""
_CALL_FIRST = "Call the module once, then compare."


def compare_workload(
    workload: Workload,
    candidates: list[Candidate],
    settings: Settings,
    *,
    clock: Callable[[], float] | None = None,
) -> Comparison:
    """Measure candidates on a workload; see ``Comparison`` for what comes of it.

    How long it takes is announced once the code has run as it is. When twice as long is over, by
    ``clock``, nothing further begins: rows say what was not compiled or timed.

    An interrupt ends the measuring and keeps what there is (``partial``); everything the workload
    reaches is as before in any case. ``progress.reporting_to`` gets how far it is.

    Raises ``OptionError`` where the runs could not begin alike: the code initialises a lazy
    module, or changes what is not put back; ``LastingEffectError`` where it does what cannot be
    taken back and is not allowed to; ``Exception`` what the code itself raises when it runs
    plainly.
    """
    workload.begin()
    # What ran before may have a backward pass to come.
    with dispatch.versions_kept(workload.snapshot.tensors):
        return _Comparing(workload, candidates, settings).run(clock)


class _Comparing:
    """One comparison under way."""

    def __init__(self, workload: Workload, listed: list[Candidate], settings: Settings) -> None:
        self._workload = workload
        self._settings = settings
        self._compiled = [CompiledCandidate(candidate) for candidate in listed]
        base = next((c for c in self._compiled if c.candidate.name == settings.baseline), None)
        plain = Candidate(settings.baseline, "", None, call=workload.eager_call())
        self._base = base or CompiledCandidate(plain, plain.call)
        self._rows = self._compiled if base else [self._base, *self._compiled]
        self._board = Board("", [each.candidate.name for each in self._rows])
        self._notes: list[str] = []
        if settings.bound is not None and all(each.bound is None for each in listed):
            self._notes.append(_NOTHING_LOWERED)
        self._check = ResultCheck(workload, settings)
        self._work: Work | None = None
        self._busy_cores = 0.0
        self._graphs: tuple[GraphComparison, ...] = ()
        self._mix: Mix | None = None
        self._limit = math.inf
        self._short = False
        self._alone = False

    def run(self, clock: Callable[[], float] | None) -> Comparison:
        workload, settings = self._workload, self._settings
        self._given, self._clock = clock, clock or time.perf_counter
        self._started = self._clock()
        interrupted = False
        try:
            with workload.suppress_output():
                self._rehearse()
            size = len(self._rows), self._base.first_call_seconds
            if settings.first_run is not None:
                self._limit = 2 * settings.seconds(*size)
            announced = settings.seconds(*size) * settings.stages
            self._board.ends = time.perf_counter() + announced - (self._clock() - self._started)
            announce(settings.announcement(announced))
            with workload.suppress_output():
                try:
                    over = self._compiling()
                    over.close()
                    # Nothing is compiled while candidates are timed.
                    with held_in(workload, settings.dtype), first_run.within(over):
                        self._measure()
                except KeyboardInterrupt:
                    interrupted = True
        finally:
            workload.close()
        record = self._record(interrupted=interrupted)
        for each in self._rows:
            each.release()
        return record

    @property
    def _left(self) -> float:
        """Seconds in which something may begin."""
        return self._limit - (self._clock() - self._started)

    def _too_late(self, compiled: CompiledCandidate) -> bool:
        """Leave out a row, but not the baseline, for want of time; whether it was left out."""
        candidate = compiled.candidate
        out = compiled is not self._base and bool(candidate.compiler or candidate.call)
        if out:
            compiled.call, compiled.remedy = None, self._longer
            compiled.unmeasured = _LATE.format(self._limit)
        return out

    @property
    def _longer(self) -> str:
        return _LONGER.format(self._limit / len(self._rows))

    def _rehearse(self) -> None:
        """Run the code as it is once: its results, what it changes, what it cannot take back."""
        workload, settings = self._workload, self._settings
        self._board.begin("plain")
        workload.restore()
        with effects(workload.snapshot.files) as outside:
            started = time.perf_counter()
            workload.eager_call()()
            self._base.first_call_seconds = self._base.call_seconds = time.perf_counter() - started
        if self._base not in self._compiled:
            self._board.put(settings.baseline, "ready")
        snapshot, said = workload.snapshot, "; ".join(outside[:5])
        if any(each.initialized for each in snapshot.uninitialized):
            raise OptionError(_LAZY, _CALL_FIRST)
        if beyond := snapshot.out_of_reach():
            raise OptionError(_BEYOND.format(beyond), _NAME_IT)
        self._alone = not (settings.allow_writes or set(outside) <= {WORKERS})
        if self._alone and not settings.per_graph:
            raise LastingEffectError(_STOPPED.format(said), _ALLOW)
        self._check.eager = workload.results()
        changed = workload.restore(thorough=True)
        lasting = bool(snapshot.unrestorable or outside)
        workload.repeatable = not (changed or lasting or self._settings.train)
        if snapshot.stopped:
            self._notes.append(f"Not put back between runs: {', '.join(snapshot.stopped)}.")
        if self._alone:
            self._notes.append(f"Only graphs were measured: a run of the code {said}.")
            return
        if snapshot.unrestorable:
            self._run_again()
        if outside:
            self._notes.append(f"Each run of the code also {said}: that cannot be taken back.")

    def _run_again(self) -> None:
        """Refuse code that gives other results each time, for what is not put back."""
        workload = self._workload
        try:
            workload.eager_call()()
            wrong = accuracy.against(workload.results(), self._check.eager).detail
        except Exception as error:  # noqa: BLE001 - the first run did not raise it
            wrong = one_line(error)
        if wrong:
            lost = workload.snapshot.unrestorable
            are = f"{', '.join(lost)} {'is' if len(lost) == 1 else 'are'}"
            raise OptionError(_OTHERWISE.format(wrong.rstrip("."), are), _MAKE_IT)
        workload.restore(thorough=True)

    def _measure(self) -> None:
        if self._alone:
            for each in self._rows:
                each.unmeasured = "Only its graphs were measured."
                if each.candidate.call is None and each.candidate.compiler is None:
                    each.compile(self._workload)
        base = None if self._alone else self._timed()
        if self._settings.per_graph:
            self._board.begin("graphs")
            listed = [each for each in self._compiled if each.timed or self._alone]
            candidates = [each.candidate for each in listed if each.candidate.compiler]
            # For as long again as the code as a whole.
            self._limit += self._limit
            with first_run.within(self._compiling()):
                self._graphs, self._mix = per_graph.race_graphs(
                    self._workload, candidates, base, self._settings, lambda: self._left
                )

    def _compiling(self, waiting: int = 1) -> first_run.FirstRun:
        """What one of so many candidates has that wait."""
        most, share = self._settings.compiling, round(_COMPILING * self._left / waiting, 1)
        remedy = _PATIENCE if most < share else self._longer
        return first_run.FirstRun(min(most, share), remedy, self._given, late_checks=True)

    def _timed(self) -> TimedCallable:
        """Compile, check and race everything; the baseline."""
        workload, settings = self._workload, self._settings
        if settings.dtype:
            workload.eager_call()()
            self._check.single, self._check.eager = self._check.eager, workload.results()
            workload.restore(thorough=True)
        if settings.fp64:
            self._check.ask_float64()
        if self._base.first_call_seconds <= settings.budget:
            self._work = _work_of(workload)
            workload.restore(thorough=True)
        self._compile()
        if (base := self._base.make_timed(workload)) is None:
            message = f"The baseline {settings.baseline} did not run: {self._base.failure}"
            raise RuntimeError(message)
        left = self._left
        for each in sorted(self._rows, key=lambda row: (row is not self._base, row.call_seconds)):
            # Warmed up, and in one round.
            left -= 2 * each.call_seconds
            if left <= 0 and each.call is not None:
                self._too_late(each)
        others = [each.make_timed(workload) for each in self._compiled if each is not self._base]
        limit = max(self._left, 0.0)
        plan = Plan(settings.budget, settings.rounds, settings.seed, limit=limit)
        with MachineLoad() as company:
            runners = [base, *filter(None, others)]
            self._short = race(
                runners, plan, progress=lambda step: self._board.timing(step, runners)
            )
        self._board.timed(runners)
        self._busy_cores = company.cores
        if company.sentence:
            self._notes.append(company.sentence)
        if settings.baseline == "eager" and (said := base.faults.sentence):
            self._notes.append(f"{said[0].upper()}{said[1:]}. {KEEP_IT}")
        if base.error is not None:
            self._stop_at(base, base.error)
        self._peaks()
        return base

    def _compile(self) -> None:
        # What is compiled later is some 0.5 % faster, for where it is in memory: in an order
        # drawn again each time, no candidate's place in the list matters.
        draw = random.Random(self._settings.seed)  # noqa: S311 - a schedule
        for done, each in enumerate(draw.sample(self._compiled, len(self._compiled))):
            name, given = each.candidate.name, self._compiling(len(self._compiled) - done)
            if given.seconds <= 0 and self._too_late(each):
                continue
            self._board.begin("compiling", name, "compiling")
            with first_run.within(given):
                each.compile(self._workload, self._board.doing, self._settings.check_on)
                if each.results is not None:
                    self._board.begin("checking", name)
                    self._check(each, each.results)
                    each.results = None
            self._board.end(name, each.failure or each.wrong)

    def _stop_at(self, base: TimedCallable, error: Exception) -> None:
        """The code itself failed in a later round: with some rounds done, they are kept."""
        if len(base.samples) < FEWEST_ROUNDS:
            raise error
        base.error = None
        self._short = True
        number = len(base.samples) + 1
        self._notes.append(f"The code itself failed in round {number}: {one_line(error)}")

    def _peaks(self) -> None:
        workload = self._workload
        gpu = _cuda_device(workload.snapshot.tensors)
        self._board.begin("memory")
        for each in self._rows:
            if each.timed is not None and each.timed.error is None and self._left > 0:
                workload.restore()
                with suppressed(Exception):
                    each.peak_bytes = memory.peak_of(each.timed.call, gpu)
        workload.restore(thorough=True)

    def _record(self, *, interrupted: bool) -> Comparison:
        settings, base = self._settings, self._base.timed
        device = _cuda_device(self._workload.snapshot.tensors)
        return Comparison(
            title=self._workload.title,
            baseline=settings.baseline,
            candidates=tuple(each.row(base) for each in self._rows),
            cell=self._workload.cell,
            graphs=self._graphs,
            mix=self._mix,
            rounds=len(base.samples) if base else 0,
            seconds=self._clock() - self._started,
            budget=settings.budget,
            seed=settings.seed,
            dtype=settings.dtype,
            train=settings.train,
            partial=interrupted or self._short,
            interrupted=interrupted,
            notes=(*self._notes, *self._check.notes),
            device="cpu" if device is None else torch.cuda.get_device_name(device),
            threads=torch.get_num_threads(),
            versions=session.versions(),
            work=self._work,
            machine=measured(device),
            busy_cores=self._busy_cores,
        )


def _work_of(workload: Workload) -> Work | None:
    """What one run of the code asks of the machine, counted in a further run."""
    # Not every code runs under such a counter.
    with suppressed(Exception):
        counted = count_work(workload.eager_call())
        results = workload.results().values()
        made = sum(each.nbytes for each in results if isinstance(each, torch.Tensor))
        precision = precision_of(counted.dtype)
        return Work(counted.operations, counted.size + made, precision, counted.weights)
    return None


def _cuda_device(tensors: list[torch.Tensor]) -> torch.device | None:
    return next((tensor.device for tensor in tensors if tensor.is_cuda), None)
