"""Times of schedules, taken in a child process with torch's thread count."""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Self

from dynamo_ext.backends.engines.tvm import target
from dynamo_ext.backends.engines.tvm.schedule import rules
from dynamo_ext.backends.engines.tvm.tuning import database

START_SECONDS = 120.0
CALL_SECONDS = 20.0
"""How long the child may take over one schedule before it is ended and started again."""


class MeasureError(RuntimeError):
    """A schedule could not be built or run; the message is TVM's."""


class Worker:
    """A child process that builds and times schedules, one at a time.

    A context manager: the process ends with it.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def seconds(self, function: Any, schedule: Any) -> float:
        """How long a PrimFunc takes as it is scheduled: the median of a few repetitions.

        Parameters
        ----------
        function
            A PrimFunc without a schedule.
        schedule
            A ``Schedule`` of it.

        Raises
        ------
        MeasureError
            Where it cannot be built or run, or takes too long.
        """
        parameters = rules.parameters(function)
        request = {
            "script": rules.fresh(function).mod.script(),
            "trace": database.trace_of(schedule),
            "shapes": [shape for shape, _ in parameters],
            "dtypes": [dtype for _, dtype in parameters],
        }
        answer = self._answer(self._running(), CALL_SECONDS, json.dumps(request) + "\n")
        if "error" in answer:
            raise MeasureError(answer["error"])
        return float(statistics.median(answer["seconds"]))

    def _answer(
        self, process: subprocess.Popen[str], limit: float, request: str = ""
    ) -> dict[str, Any]:
        """What the process writes next, after a request; without an answer it is ended."""
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - pipes
        line, late = "", threading.Timer(limit, process.kill)
        start = time.monotonic()
        late.start()
        try:
            with contextlib.suppress(OSError):
                process.stdin.write(request)
                process.stdin.flush()
                line = process.stdout.readline()
        finally:
            late.cancel()
            if not line:
                self._stop()
        if not line:
            ended = time.monotonic() - start < limit
            message = "The measuring process ended."
            raise MeasureError(message if ended else f"It took more than {limit:.0f} seconds.")
        found: dict[str, Any] = json.loads(line)
        return found

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            script = str(Path(__file__).with_name("worker.py"))
            command = [sys.executable, "-P", script, target.cpu(), str(target.cores())]
            self._process = subprocess.Popen(  # noqa: S603 - this interpreter, our own script
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                env={**os.environ, "TVM_NUM_THREADS": str(target.threads())},
                # Ctrl-C is for the search, which decides what to keep.
                start_new_session=True,
            )
            self._answer(self._process, START_SECONDS)
        return self._process

    def _stop(self) -> None:
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            # Waits, and closes the pipes; what it did not read is lost with it.
            with contextlib.suppress(OSError):
                process.__exit__(None, None, None)
