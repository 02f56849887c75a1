"""Measurements carried by an executor of the user's: other processes, other machines."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import replace
from typing import Any

from dynamo_ext.interruptions import pass_on
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.remote import worker
from dynamo_ext.measure.remote.tasks import Task
from dynamo_ext.measure.remote.worker_result import Answer, read

_LOOK_SECONDS = 0.5
_REMEDY = "Use isolate=True here, where each candidate has a process of its own."


class Carried:
    """Candidates given to an executor, and their answers as they come.

    ``answers`` are by the candidate's name, ``task`` is what they are about.
    """

    def __init__(self, executor: Executor, task: Task) -> None:
        self.answers: dict[str, Answer] = {}
        self._executor = executor
        self.task = task
        self._futures: dict[Future[Any], str] = {}

    def submit(self, name: str, packed: bytes) -> None:
        """Give one candidate away."""
        try:
            self._futures[self._executor.submit(worker.measure, packed)] = name
        except Exception as error:  # noqa: BLE001 - an executor that broke is a row's reason
            pass_on(error)
            self.answers[name] = Answer(None, f"The executor accepted no task: {one_line(error)}.")

    def collect(self, seconds: float, tell: Callable[[str, float], object]) -> None:
        """Wait for all, at most ``seconds`` from now; those that are left are given up.

        On a ``KeyboardInterrupt``, what has not begun is cancelled.
        """
        began = time.monotonic()
        waiting = set(self._futures)
        try:
            while waiting:
                passed = time.monotonic() - began
                if passed > seconds:
                    break
                tell(", ".join(sorted(self._futures[each] for each in waiting)), passed)
                done, waiting = wait(waiting, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
                for each in done:
                    self.answers[self._futures[each]] = self._answer(each)
            for each in waiting:
                reason = f"The executor had no result after {seconds:.0f} s."
                self.answers[self._futures[each]] = Answer(None, reason)
        finally:
            for each in waiting:
                each.cancel()

    def _answer(self, future: Future[Any]) -> Answer:
        try:
            given = future.result()
        except BrokenExecutor as error:
            reason = f"The executor's processes died, with this candidate or another: {error}"
            return Answer(None, reason.splitlines()[0], _REMEDY)
        except Exception as error:  # noqa: BLE001 - what executors raise is their own
            pass_on(error)
            return Answer(None, f"The executor failed: {one_line(error)}.", _REMEDY)
        several = not isinstance(given, Mapping)
        answer = read(given[0] if several else given, self.task)
        if several and answer.record is not None:
            # `rc[:].executor` of ipyparallel runs everything on every engine.
            said = "The executor ran each candidate on every engine; the first one's is kept."
            record = replace(answer.record, notes=(*answer.record.notes, said))
            return replace(answer, record=record)
        return answer
