"""All cases under one engine, in worker processes that may die."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from benchmarks.operators.row import Row, Verdict, case_key
from benchmarks.operators.worker import PREFIX, RENEW

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

START_SECONDS = 300.0
"""For a worker's first case: it loads torch, an engine and all samples before."""

_MOST_BARREN = 2
"""Workers in a row that die before their first case, after which an engine is given up."""


class EngineFailedError(RuntimeError):
    """A worker cannot be started, or fails outside of any case."""


def rows(
    engine: str, arguments: Sequence[str], *, known: Sequence[Row] = (), timeout: float = 60.0
) -> Iterator[Row]:
    """Run what is not known yet, and give each row as it comes.

    Parameters
    ----------
    engine
        A backend's name.
    arguments
        Further arguments of ``benchmarks.operators.worker``.
    known
        Rows of an earlier run, which are not run again.
    timeout
        Seconds that one case may take.

    Raises
    ------
    EngineFailedError
        Where workers die, or raise, before they start a case.
    """
    done = {row.key for row in known}
    barren = 0
    while True:
        with _worker(engine, arguments, done) as worker:
            status, count = None, 0
            for row, status in worker.rows(timeout):  # noqa: B007 - the last one counts
                if row is not None:
                    done.add(row.key)
                    count += 1
                    yield row
            words = worker.last_words() if status else ""
        if status == 0:
            return
        barren = 0 if count else barren + 1
        if barren >= _MOST_BARREN:
            message = f"The worker for {engine} ended with {status}: {words}"
            raise EngineFailedError(message)


class _Worker:
    """A process that runs cases, and what it says."""

    def __init__(self, engine: str, process: subprocess.Popen[str], errors: IO[str]) -> None:
        self._engine = engine
        self._process = process
        self._errors = errors
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        for line in self._process.stdout or ():
            self._lines.put(line)
        self._lines.put(None)

    def rows(self, timeout: float) -> Iterator[tuple[Row | None, int | None]]:
        """Rows as they come, and at last the exit status: 0 where all is done."""
        case: list[Any] | None = None
        patience = START_SECONDS
        while True:
            try:
                line = self._lines.get(timeout=patience)
            except queue.Empty:
                self.kill()
                yield self._fault(case, "timeout", f"No result in {patience:.0f} s."), 1
                return
            if line is None:
                break
            at = line.find(PREFIX)
            if at < 0:
                continue
            word, value = json.loads(line[at + len(PREFIX) :])
            if word == "start":
                case = value
            elif word == "row":
                # Not before: the first case also loads the engine.
                case, patience = None, timeout
                yield Row.from_dict(value), None
        status = self._process.wait()
        if case is not None:
            yield self._fault(case, "crash", self._death(status)), status or 1
        else:
            yield None, status

    def _fault(self, case: list[Any] | None, verdict: Verdict, reason: str) -> Row | None:
        if case is None:
            return None
        operator, dtype, sample = case
        return Row(self._engine, operator, dtype, sample, verdict, reason)

    def _death(self, status: int) -> str:
        if status < 0:
            return f"The process died of {signal.Signals(-status).name}."
        return f"The process ended with {status}: {self.last_words()}"

    def last_words(self) -> str:
        """The last line of its standard error."""
        self._errors.seek(0)
        lines = [line for line in self._errors.read().splitlines() if line.strip()]
        return lines[-1].strip() if lines else "it said nothing."

    def kill(self) -> None:
        """End it, if it has not ended."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait()
        self._listener.join(5.0)
        if self._process.stdout is not None and not self._listener.is_alive():
            self._process.stdout.close()


@contextlib.contextmanager
def _worker(engine: str, arguments: Sequence[str], done: set[str]) -> Iterator[_Worker]:
    with (
        tempfile.TemporaryDirectory() as folder,
        tempfile.TemporaryFile("w+", errors="replace") as errors,
    ):
        keys = Path(folder, "done")
        keys.write_text("\n".join(sorted(done)))
        command = [sys.executable, "-m", "benchmarks.operators.worker", "--engine", engine]
        process = subprocess.Popen(  # noqa: S603 - this interpreter and our own module
            [*command, "--done", str(keys), *arguments],
            cwd=Path(__file__).parents[2],
            # One thread each: the tensors are tiny, and engines would fight over the cores.
            env={
                **os.environ,
                "OMP_NUM_THREADS": "1",
                "PYTHONHASHSEED": "0",
                "DYNAMO_EXT_UNRECORDED": "1",
            },
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            errors="replace",
        )
        worker = _Worker(engine, process, errors)
        try:
            yield worker
        finally:
            worker.kill()


__all__ = ["RENEW", "START_SECONDS", "EngineFailedError", "case_key", "rows"]
