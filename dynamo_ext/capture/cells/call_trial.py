"""Whether the graphs that a library's loop calls run in the engine or in eager.

Dynamo sees the functions that the loop calls, and not the loop: a turn is from one call of a graph,
the anchor, to its next. In some turns the engine runs all graphs, and eager in others::

    loss, step | loss, step | loss, step | …
    engine       eager        engine

Where the engine is not faster, what these graphs were captured of is Python's from the next run on.
"""

from __future__ import annotations

import functools
import time
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.backends import registry
from dynamo_ext.capture.cells.turn_trial import Trials, TurnTrial, other_work
from dynamo_ext.capture.listen.small_graphs import CALLS
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.timing import first_run

if TYPE_CHECKING:
    from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall
    from dynamo_ext.capture.listen.run_log import GraphEntry, RunLog
    from dynamo_ext.records.capture import LoopTurns

_NOT_TRIED = frozenset({"auto", "eager"})
"""A race has trials of its own, and eager is not faster than itself."""


def call_trial(
    trials: Trials, backend: str, run: RunLog, former: CallTrial | None
) -> CallTrial | None:
    """The trial of a cell's graphs on a backend, for a run; it goes on with an earlier run's."""
    if backend not in registry.OURS.keys() - _NOT_TRIED:
        return None
    trial = CallTrial(trials.is_in_long_loop, functools.partial(trials.keep, 0))
    trials.recall(trial, 0)
    if trial.is_python is None and former is not None:
        trial.go_on_with(former)
    run.way_of_call = None if trial.is_python is False else trial.way
    return trial


def note(trial: CallTrial | None, run: RunLog, started: float, busy_cores: float) -> None:
    """Have the report of a run, which ``started`` so and has ended, say what was found.

    Where other programs kept so many cores busy, nothing was.
    """
    if busy_cores >= BUSY_CORES:
        for entry in run.calls:
            entry.is_left_to_python = False
    elif trial is not None and (turns := trial.of_run(run, started)) is not None:
        run.turns[0] = turns
        if trial.is_python:
            run.fallbacks[trial.as_fallback()] = None


class CallTrial(TurnTrial):
    """The trial of all graphs that a run calls often; their outcome.

    Graphs of a long loop of the cell, as ``in_long_loop`` says, have the trial of its turns.
    """

    def __init__(
        self,
        in_long_loop: Callable[[], bool],
        keep: Callable[..., object],
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        super().__init__(0, keep, clock)
        self._in_long_loop = in_long_loop
        self._anchor: Callable[[], GraphEntry | None] = lambda: None
        self._samples: list[float] | None = None
        self._began = self._worked = self._decided = 0.0

    def go_on_with(self, former: CallTrial) -> None:
        """Count the turns that a trial of an earlier run has timed."""
        self._captured, self._python = former._captured, former._python
        self._anchor = former._anchor

    def way(
        self, run: RunLog, entry: GraphEntry, call: GraphCall, args: Sequence[Any]
    ) -> Callable[..., Any]:
        """What runs a call of a graph: the engine, or eager where the run has called it often."""
        if self._in_long_loop() or run.calls[entry].count < CALLS // 2:
            return call
        if self.is_python is None:
            self._note_call(run, entry, args)
        if self.is_python is None:
            return call.eager if self._samples is self._python else call
        entry.is_left_to_python = entry.is_left_to_python or self.is_python
        return call.eager if entry.is_left_to_python else call

    def _note_call(self, run: RunLog, entry: GraphEntry, args: Sequence[Any]) -> None:
        """End a turn where this is a call of the anchor, and begin another."""
        if self._anchor() not in run.calls and self._may_begin(run, entry, args):
            self._anchor = weakref.ref(entry)
            self._captured.clear()
            self._python.clear()
        if self._anchor() is not entry:
            return
        now, worked = self._clock(), other_work()
        if self._samples is not None and worked == self._worked:
            self._samples.append(now - self._began)
            self._end_if_known()
        if self.is_python is not None:
            self._decided = now
        self._samples = self._next_samples()
        self._began, self._worked = self._clock(), worked

    def _may_begin(self, run: RunLog, entry: GraphEntry, args: Sequence[Any]) -> bool:
        if run.calls[entry].count < CALLS or first_run.current().used_up():
            return False
        if entry.backend == "inductor" and any(each.draws for each in run.calls):
            # It has random numbers of its own.
            return False
        # Else backward passes come after all turns.
        return all(each.grad_fn is None for each in args if isinstance(each, torch.Tensor))

    def of_run(self, run: RunLog, started: float) -> LoopTurns | None:
        """What was found, if anything, for a run that has ended."""
        if self.is_python is None or not any(self._outcome):
            return None
        self._plain = self._clock() - max(started, self._decided) if self.is_python else 0.0
        anchor = self._anchor()
        self._turns = run.calls[anchor].count if anchor in run.calls else 0
        return self.as_record()
