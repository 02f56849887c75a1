"""Times of schedules, taken in a child process with torch's thread count."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import statistics
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any, Self

from dynamo_ext.backends import tvm_database, tvm_schedule, tvm_target

START_SECONDS = 120.0
END_SECONDS = 5.0
CALL_SECONDS = 20.0
"""How long the child may take over one schedule before it is ended and started anew."""


class MeasureError(RuntimeError):
    """A schedule could not be built or run; the message is TVM's."""


class TrackerError(RuntimeError):
    """No machine could be had from TVM's RPC tracker."""


class Worker:
    """A child process that builds and times schedules, one at a time.

    A context manager: the process ends with it. ``measured`` counts the schedules that were
    given to it.

    Parameters
    ----------
    tracker
        ``HOST:PORT/KEY`` of TVM's RPC tracker, to time on a machine that it lends; empty for this
        one. Building for it takes a C compiler here, which links.
    """

    def __init__(self, tracker: str = "") -> None:
        self.measured = 0
        self._tracker = tracker
        self._process: subprocess.Popen[str] | None = None
        self._answers: queue.Queue[str] = queue.Queue()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def seconds(self, function: Any, schedule: Any, *, again: bool = False) -> float:
        """How long a PrimFunc takes as it is scheduled: the median of a few repetitions.

        Parameters
        ----------
        function
            A PrimFunc without a schedule.
        schedule
            A ``Schedule`` of it.
        again
            Whether it was timed before, and is not to be counted.

        Raises
        ------
        MeasureError
            Where it cannot be built or run, or takes too long.
        TrackerError
            Where the tracker cannot be reached, or lends nothing.
        """
        self.measured += not again
        process = self._running()
        parameters = tvm_schedule.parameters(function)
        request = {
            "script": tvm_schedule.fresh(function).mod.script(),
            "trace": tvm_database.trace_of(schedule),
            "shapes": [shape for shape, _ in parameters],
            "dtypes": [dtype for _, dtype in parameters],
        }
        try:
            assert process.stdin is not None  # noqa: S101 - it was opened with a pipe
            process.stdin.write(json.dumps(request) + "\n")
            process.stdin.flush()
        except OSError as error:
            self._stop()
            message = "The measuring process ended."
            raise MeasureError(message) from error
        answer = self._answer(CALL_SECONDS)
        if "error" in answer:
            raise MeasureError(answer["error"])
        return float(statistics.median(answer["seconds"]))

    def _answer(self, patience: float) -> dict[str, Any]:
        try:
            line = self._answers.get(timeout=patience)
        except queue.Empty:
            self._stop()
            message = f"It took more than {patience:.0f} seconds."
            raise MeasureError(message) from None
        except KeyboardInterrupt:
            # An answer that nobody waits for would be taken for the next one's.
            self._stop()
            raise
        if not line:
            self._stop()
            message = "The measuring process ended."
            raise MeasureError(message)
        found: dict[str, Any] = json.loads(line)
        return found

    def _running(self) -> subprocess.Popen[str]:
        if self._process is not None:
            return self._process
        script = str(Path(__file__).with_name("tvm_worker.py"))
        command = [sys.executable, "-P", script, tvm_target.cpu(), str(tvm_target.cores())]
        command += [self._tracker] if self._tracker else []
        self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own script
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "TVM_NUM_THREADS": str(tvm_target.threads())},
            # Ctrl-C is for the search, which decides what to keep.
            start_new_session=True,
        )
        self._answers = queue.Queue()
        reader = threading.Thread(
            target=_read, args=(self._process, self._answers), daemon=True, name="tvm-measure"
        )
        reader.start()
        try:
            refusal = self._answer(START_SECONDS).get("error", "")
        except MeasureError as error:
            if not self._tracker:
                raise
            refusal = str(error)
        if refusal:
            self._stop()
            message = f"No machine could be had from {self._tracker}: {refusal}"
            raise TrackerError(message)
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        if self._tracker:
            # A machine that was lent is given back by a process that ends by itself.
            with contextlib.suppress(OSError, subprocess.TimeoutExpired):
                if process.stdin is not None:
                    process.stdin.close()
                process.wait(END_SECONDS)
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError, ValueError):
                if pipe is not None:
                    pipe.close()


def _read(process: subprocess.Popen[str], answers: queue.Queue[str]) -> None:
    assert process.stdout is not None  # noqa: S101 - it was opened with a pipe
    with contextlib.suppress(OSError, ValueError):
        for line in process.stdout:
            answers.put(line)
    answers.put("")
