"""One measurement in a fresh process of its own, which may crash, exit, hang or run out of memory.

Loky starts the process: a new interpreter, since a fork of a process in which torch has threads
hangs, and one that does not run the user's script again.
"""

import contextlib
import multiprocessing
import os
import re
import signal
import tempfile
import time
from concurrent.futures import BrokenExecutor, Future, wait
from dataclasses import replace
from multiprocessing import connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TypeVar, cast

from dynamo_ext.measure.candidate_run import one_line
from dynamo_ext.measure.remote import worker
from dynamo_ext.measure.remote.worker import Answer

START_SECONDS = 300.0
"""How long a process may take to start and import torch, which is not the candidate's doing."""

_END_SECONDS = 10.0
_PLACE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)$', re.MULTILINE)
_LOOK_SECONDS = 0.5

_Result = TypeVar("_Result")


def measure_alone(packed: bytes, seconds: float) -> Answer:
    """Measure what ``serialization.pack`` packed in a new process, and end it.

    It is stopped ``seconds`` after it has started. After a ``KeyboardInterrupt`` the process is
    gone, too.
    """
    import loky

    with tempfile.TemporaryDirectory(prefix="dynamo_ext_") as folder:
        faults = Path(folder, "faults.txt")
        others = set(multiprocessing.active_children())
        executor = loky.ProcessPoolExecutor(1, initializer=worker.begin, initargs=(str(faults),))
        mine: list[BaseProcess] = []
        label = ""
        try:
            start: Future[str] = executor.submit(worker.name)
            mine = [each for each in multiprocessing.active_children() if each not in others]
            label = _result(start, START_SECONDS)
            answer = worker.read(_result(executor.submit(worker.measure, packed), seconds))
        except BaseException as error:  # noqa: BLE001 - an interrupt is raised again
            executor.shutdown(wait=True, kill_workers=True)
            answer = _failure(error, mine, faults)
        else:
            # Engines clean up after themselves when their process ends by itself.
            executor.shutdown(wait=False)
            _see_off(mine)
    # On this machine, which needs no name.
    return replace(answer, worker=label.rpartition(", ")[2])


def _failure(error: BaseException, processes: list[BaseProcess], faults: Path) -> Answer:
    """What a process came to that gave no answer; an interrupt is raised again."""
    if isinstance(error, BrokenExecutor):
        return Answer(None, *_death(processes, faults))
    if isinstance(error, TimeoutError):
        remedy = "If it only takes long to compile, give it a larger first_run."
        return Answer(None, str(error), remedy)
    if isinstance(error, Exception):
        # Torch may not even be imported there.
        return Answer(None, f"Its process could not measure: {one_line(error)}.")
    raise error


def _see_off(processes: list[BaseProcess]) -> None:
    """Wait until processes end; end those that do not."""
    # Loky's own thread collects them, so their exit codes are not for this one to wait for.
    ended = {each.sentinel: each for each in processes}
    limit = time.monotonic() + _END_SECONDS
    while ended and time.monotonic() < limit:
        for sentinel in connection.wait(list(ended), timeout=_LOOK_SECONDS):
            ended.pop(cast("int", sentinel))
    for each in ended.values():
        if each.pid:
            with contextlib.suppress(ProcessLookupError):
                # Windows has no SIGKILL, and ends a process for any signal.
                os.kill(each.pid, getattr(signal, "SIGKILL", signal.SIGTERM))


def _result(future: Future[_Result], seconds: float) -> _Result:
    began = time.monotonic()
    while not future.done():
        if (passed := time.monotonic() - began) > seconds:
            message = f"It was stopped after {seconds:.0f} s."
            raise TimeoutError(message)
        wait([future], timeout=min(_LOOK_SECONDS, max(seconds - passed, 0.01)))
    return future.result()


def _death(processes: list[BaseProcess], faults: Path) -> tuple[str, str]:
    """How the process ended, and the remedy."""
    code = next((each.exitcode for each in processes if each.exitcode is not None), None)
    said, remedy = ending(code)
    trace = faults.read_text(encoding="utf-8", errors="replace") if faults.exists() else ""
    if (place := _PLACE.search(trace)) is not None:
        said += f" It was in {place['name']} ({place['file']}, line {place['line']})."
    return said, remedy


def ending(code: int | None) -> tuple[str, str]:
    """An exit code as a sentence, and the remedy."""
    if code is None:
        return "Its process died.", ""
    if code >= 0:
        return f"Its process exited by itself (code {code}).", ""
    if (number := -code) == signal.SIGKILL:
        return (
            f"Its process was killed (signal {number}), as the system does when memory runs out.",
            "Try it with a smaller batch, or free memory.",
        )
    said = (signal.strsignal(number) or "unknown").lower()
    return f"Its process died (signal {number}, {said}).", ""
