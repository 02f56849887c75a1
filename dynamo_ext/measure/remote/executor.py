"""Measurements carried by an executor of the user's: other processes, other machines."""

import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import BrokenExecutor, Executor, Future, wait
from dataclasses import replace
from typing import Any

from dynamo_ext.interruptions import pass_on
from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.remote import worker
from dynamo_ext.measure.remote.worker import Answer

_LOOK_SECONDS = 0.5
_REMEDY = "Use isolate=True here, where each candidate has a process of its own."


def carry(
    executor: Executor,
    packed: Iterable[tuple[str, bytes]],
    answers: dict[str, Answer],
    seconds: float,
    ended: Callable[[str], object],
) -> None:
    """Give candidates, by their names, to an executor; put their answers into ``answers``.

    Those that have none ``seconds`` after the last was given are given up. ``ended`` gets each
    name once its answer is there. On a ``KeyboardInterrupt``, what has not begun is cancelled.
    """
    names: dict[Future[Any], str] = {}
    for name, payload in packed:
        try:
            names[executor.submit(worker.measure, payload)] = name
        except Exception as error:  # noqa: BLE001 - an executor that broke is a row's reason
            pass_on(error)
            answers[name] = Answer(None, f"The executor accepted no task: {one_line(error)}.")
    began = time.monotonic()
    waiting = set(names)
    try:
        while waiting and time.monotonic() - began <= seconds:
            done, waiting = wait(waiting, timeout=_LOOK_SECONDS, return_when="FIRST_COMPLETED")
            for each in done:
                answers[names[each]] = _answer(each)
                ended(names[each])
        for each in waiting:
            reason = f"The executor had no result after {seconds:.0f} s."
            answers[names[each]] = Answer(None, reason)
    finally:
        for each in waiting:
            each.cancel()


def _answer(future: Future[Any]) -> Answer:
    try:
        given = future.result()
    except BrokenExecutor as error:
        reason = f"The executor's processes died, with this candidate or another: {error}"
        return Answer(None, reason.splitlines()[0], _REMEDY)
    except Exception as error:  # noqa: BLE001 - what executors raise is their own
        pass_on(error)
        return Answer(None, f"The executor failed: {one_line(error)}.", _REMEDY)
    # `rc[:].executor` of ipyparallel runs everything on every engine.
    several = not isinstance(given, Mapping)
    answer = worker.read(given[0] if several else given)
    if answer.record is None or not several:
        return answer
    said = "The executor ran each candidate on every engine; the first one's is kept."
    return replace(answer, record=replace(answer.record, notes=(*answer.record.notes, said)))
