"""A bound of accuracy checked on all that a cell gives, before the cell itself runs; calibration.

Each lowered graph has met the bound by itself, but errors add up. So the cell runs as often as that
takes from a state that is put back each time: in eager, under the winners of the races, in float64.
Where the bound is missed, graphs go back to float32, those with the largest errors first. The
compiled code stays, and the cell's own run that follows reuses it. Other inputs calibrate int8
before; without a bound that is all.
"""

import contextlib
import dataclasses
import time
import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.auto.program_trial import ProgramTrials
from dynamo_ext.backends import precision
from dynamo_ext.capture.listen.run_log import GraphEntry, Recording, RunLog
from dynamo_ext.capture.listen.tracer import Tracer
from dynamo_ext.errors import DynamoExtError, OptionError
from dynamo_ext.formatting import seconds, sentence
from dynamo_ext.interruptions import failures
from dynamo_ext.measure import accuracy
from dynamo_ext.measure.candidate_run import CompiledCandidate, one_line
from dynamo_ext.measure.candidates import Candidate
from dynamo_ext.measure.result_check import ResultCheck
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.state.side_effects import RefusedEffectError, effects
from dynamo_ext.measure.workload import CellWorkload, Workload
from dynamo_ext.numerics.lowered_precision import BOUNDS
from dynamo_ext.records.autotune import EndToEnd
from dynamo_ext.records.common import FULL
from dynamo_ext.records.report import Report
from dynamo_ext.torch_private import dispatch

LONGEST = 60.0
"""Seconds of a run of the cell beyond which it is not run again."""


class Rehearsal:
    """The check of one cell under one compiler, which holds for its later runs.

    ``workload`` makes the cell as it is now; ``settings`` have the bound, if any, and the other
    inputs on which it is to be met; ``trials`` are those of the backend, if it has some. ``key``
    distinguishes this check from others of the cell.
    """

    def __init__(
        self,
        workload: Callable[[], CellWorkload],
        tracer: Tracer,
        trials: ProgramTrials | None,
        settings: Settings,
        key: object = None,
    ) -> None:
        self.key = key
        # Whether the next run must be checked: it was not yet, or graphs came after the check.
        self.due = True
        self._workload = workload
        self.tracer = tracer
        self._trials = trials or ProgramTrials()
        self.settings = settings
        # For good: a later check begins without their lower variants.
        self._kept_full: weakref.WeakSet[GraphEntry] = weakref.WeakSet()
        self._reset()

    def _reset(self) -> None:
        self._members = weakref.WeakKeyDictionary[GraphEntry, AutotunedGraph]()
        self._found = EndToEnd(str(self.settings.bound), inputs=len(self.settings.check_on))

    def before(self, run: RunLog) -> None:
        """Check where that is due; ``run`` gets what is compiled for it, and none of its calls.

        Raises what an interrupt raises, and ``OptionError`` for a metric of the user's that fails,
        or where nothing but calibration was asked for and the cell cannot be run for it.
        """
        if self.due:
            self._reset()
            self._check_apart(run)
        else:
            self._note(seconds=0.0, earlier=True)
        if (lack := self._found.lack) and self.settings.bound is None:
            message = f"--check-on cannot calibrate: {sentence(lack)}"
            raise OptionError(message, "Leave it out, or calibrate by dynamo_ext.calibrating().")

    def _note(self, **facts: Any) -> None:
        self._found = dataclasses.replace(self._found, **facts)

    def _check_apart(self, run: RunLog) -> None:
        """Check; ``run`` counts what is compiled, and none of the calls."""
        started = time.perf_counter()
        try:
            with (
                mock.patch.multiple(run, on_graph_call=None, after_graph_call=self._remember),
                mock.patch.object(self._trials, "paused", new=True),
            ):
                self._check()
        finally:
            bound = self.settings.bound
            if (self.due or self._found.lack) and bound is not None and bound.function is not None:
                # Nothing else judges by it.
                self._keep_full(self._lowered())
            raced = sum(e.journal.race_seconds - c.raced_before for e, c in run.calls.items())
            spent = time.perf_counter() - started - run.compile_seconds - raced
            self._note(seconds=max(spent, 0.0))
            run.count_again()

    def record(self, run: RunLog, report: Report) -> EndToEnd | None:
        """What it came to, by the graphs of a run's report; ``None`` without a bound."""
        if self.settings.bound is None:
            return None
        ids = {entry: graph.id for entry, graph in zip(run.calls, report.graphs, strict=True)}
        called = {entry for entry, calls in run.calls.items() if calls.count}
        lowered = {entry for entry in called if _precision(entry) != FULL}
        lack = self._found.lack
        unchecked = lowered if lack else lowered - set(self._members)
        if unchecked and not lack:
            self.due = True
        kept = set(self._kept_full) & called
        return dataclasses.replace(
            self._found,
            lowered=tuple(ids[entry] for entry in run.calls if entry in lowered),
            kept_full=tuple(ids[entry] for entry in run.calls if entry in kept),
            unchecked=tuple(ids[entry] for entry in run.calls if entry in unchecked),
        )

    def _remember(self, _run: Any, entry: GraphEntry, _: Any, compiled: Any, *_args: Any) -> None:
        """Know an ``AfterGraphCall``'s graph for one that is checked."""
        if isinstance(compiled, AutotunedGraph):
            self._members[entry] = compiled

    def _check(self) -> None:
        """Check, or note what it lacks; no longer ``due`` where that holds for later runs."""
        try:
            workload = self._workload()
            workload.begin()
            with contextlib.ExitStack() as left:
                # The compiled code stays, other than at a workload's own end.
                left.callback(Workload.close, workload)
                # What ran before may have a backward pass to come.
                left.enter_context(dispatch.versions_kept(workload.snapshot.tensors))
                left.enter_context(workload.suppress_output())
                left.enter_context(warnings.catch_warnings())
                # One that was seen here would not be given in the cell's own run.
                warnings.simplefilter("ignore")
                lost = workload.snapshot.unrestorable
                lack = f"{lost[0]} cannot be put back between runs." if lost else ""
                self._note(lack=lack or self._in_both(workload))
        except (KeyboardInterrupt, DynamoExtError):
            raise
        except BaseException as error:  # noqa: BLE001 - the cell's own run raises the user's, too
            failures()
            self._note(lack=f"Its run for that raised {one_line(error)}")
            self.due = True

    def _in_both(self, workload: CellWorkload) -> str:
        """Run it in eager and under the winners, and judge; why that could not be done."""
        check = ResultCheck(workload, self.settings)
        started = time.perf_counter()
        said: list[str] = []
        try:
            with effects(refused=True) as said:
                workload.eager_call()()
        except RefusedEffectError:
            pass
        except Exception:
            if not said:
                raise
        if said:
            self.due = False
            return f"It {said[0]}, which cannot be taken back."
        if lack := _not_put_back(workload):
            return lack
        if (taken := time.perf_counter() - started) > LONGEST:
            self.due = False
            return f"A run takes {seconds(taken)}, and more than {seconds(LONGEST)} is too long."
        check.eager = workload.results()
        workload.restore(thorough=True)
        call = workload.compiled_call(self.tracer, None)
        if self.settings.check_on:
            workload.calibrate(call, self.settings.check_on)
        if self.settings.bound is not None:
            call()
            self._judge(workload, check, call)
            for member in list(self._members.values()):
                member.let_go_of_lower()
        self.due = False
        return ""

    def _judge(
        self, workload: CellWorkload, check: ResultCheck, call: Callable[[], object]
    ) -> None:
        bound, back = self.settings.bound, 1
        while lowered := self._lowered():
            found = workload.results()
            workload.restore(thorough=True)
            lowest = max((_precision(entry) for entry in lowered), key=lambda name: BOUNDS[name])
            raced = Candidate("auto", "auto", None, precision=lowest, bound=bound)
            each = CompiledCandidate(raced, call)
            # What other inputs compile does not belong to the cell's own run.
            with Recording(RunLog(after_graph_call=self._remember)) as elsewhere:
                check(each, found)
            missed = bool(each.wrong or each.failure)
            suspects = [entry for entry in self._lowered() if entry in elsewhere.calls]
            own = [entry for entry in lowered if entry not in elsewhere.calls]
            if self.settings.check_on and own and not missed:
                # Other inputs ran other graphs, which say nothing of these.
                found, eager = check.with_the_same_names(found)
                exact = check.ask_float64()
                each.accuracy.append(accuracy.lowered(found, eager, exact, lowest, bound))
                missed, suspects = not each.accuracy[-1].within, own
            if not missed:
                reached = [one.reached for one in each.accuracy if one.reached is not None]
                worst = bound.worst(reached) if bound is not None else None
                self._note(reached=worst, reference=each.accuracy[0].reference)
                return
            if self._found.missed is None:
                self._note(missed=each.accuracy[-1].reached)
            # Twice as many each time: a cell of fifty graphs is not run fifty times.
            suspects = suspects or self._lowered()
            self._keep_full(sorted(suspects, key=_error, reverse=True)[:back])
            back *= 2
            workload.restore(thorough=True)
            if self._lowered():
                call()

    def _lowered(self) -> list[GraphEntry]:
        return [entry for entry in list(self._members) if _precision(entry) != FULL]

    def _keep_full(self, entries: Sequence[GraphEntry]) -> None:
        for entry in entries:
            self._members[entry].keep_full()
            self._kept_full.add(entry)


def _not_put_back(workload: CellWorkload) -> str:
    """What a run has changed that a later one would notice."""
    if any(each.initialized for each in workload.snapshot.uninitialized):
        return "It calls a lazy module for the first time."
    beyond = workload.snapshot.out_of_reach()
    return f"It changes a tensor that {beyond} alone leads to." if beyond else ""


def _precision(entry: GraphEntry) -> str:
    """What the graph's winner computes in."""
    held = entry.journal.contest
    return FULL if held is None else precision.behind(held.winner)


def _error(entry: GraphEntry) -> float:
    """The largest relative error of the graph's winner in its race."""
    held = entry.journal.contest
    rows = held.contestants if held is not None else ()
    return next((row.error for row in rows if held and row.backend == held.winner), 0.0)
