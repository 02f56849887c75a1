"""Models under a backend in processes of their own, within bounds of time and memory."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.model_row import Row
from benchmarks.model_run import parse

_GIB = 2**30
_PAUSE = 0.1
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Bounds:
    """What a process may use: wall-clock seconds by model, and GiB of resident memory."""

    seconds: float = 600.0
    memory: float = 12.0


def rows(
    models: Sequence[str], backend: str, dtype: str, *, quick: bool, bounds: Bounds
) -> Iterator[Row]:
    """A row for each model, those of one process together.

    A process that crashes, hangs or grows too large costs the model that it was at: the rest go
    on in another one.

    Parameters
    ----------
    models
        Names of the zoo.
    backend, dtype, quick
        As ``model_run.measure`` takes them.
    bounds
        Of each process.
    """
    left = list(models)
    while left:
        running = _run(left, backend, dtype, quick=quick, bounds=bounds)
        while True:
            try:
                row = next(running)
            except StopIteration as end:
                reason = end.value
                break
            left.remove(row.model)
            yield row
        if left:
            yield Row(left.pop(0), backend, dtype, quick, "failed", reason)


def _run(
    models: Sequence[str], backend: str, dtype: str, *, quick: bool, bounds: Bounds
) -> Generator[Row, None, str]:
    """The rows that a process prints, as they come, and how it ended where it did not end well."""
    command = [sys.executable, "-m", "benchmarks.model_run", "--backend", backend]
    command += ["--dtypes", dtype, *(["--quick"] if quick else []), "--models", *models]
    with tempfile.TemporaryDirectory() as folder:
        # Compile seconds are those of a first time.
        caches = {"TORCHINDUCTOR_CACHE_DIR": str(Path(folder, "inductor"))} if not quick else {}
        environment = {**os.environ, "HF_HUB_OFFLINE": "1", **caches}
        output, errors = Path(folder, "output"), Path(folder, "errors")
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, on our own module
                command, stdout=out, stderr=err, env=environment, cwd=_ROOT, start_new_session=True
            )
            known: set[str] = set()
            stopped: str | None = None
            limits = replace(bounds, seconds=bounds.seconds * len(models))
            with contextlib.closing(_watch(process, limits)) as watched:
                for state in watched:
                    stopped = state
                    # Only whole lines: the process may be at the middle of one.
                    text = output.read_text(errors="replace").rpartition("\n")[0]
                    for key, row in parse(text).items():
                        if key not in known:
                            known.add(key)
                            yield row
        said = errors.read_text(errors="replace").strip().splitlines() or [""]
    return stopped or _ending(process.returncode, said[-1])


def _watch(process: subprocess.Popen[bytes], bounds: Bounds) -> Generator[str | None, None, None]:
    """Wait for a process: ``None`` while it runs, then why it was ended, if it was.

    It is ended where it leaves its bounds, or where nobody waits any more.
    """
    import psutil

    deadline = time.monotonic() + bounds.seconds
    reason = ""
    try:
        while process.poll() is None and not reason:
            yield None
            time.sleep(_PAUSE)
            if time.monotonic() > deadline:
                reason = f"It had no result after {bounds.seconds:.0f} s."
            elif _resident(process.pid) > bounds.memory * _GIB:
                reason = f"It used more than {bounds.memory:g} GiB of memory."
    except psutil.NoSuchProcess:
        process.wait()
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    yield reason


def _resident(pid: int) -> int:
    """Bytes in memory of a process and of those that it started (compilers)."""
    import psutil

    process = psutil.Process(pid)
    total = 0
    for each in (process, *process.children(recursive=True)):
        try:
            total += each.memory_info().rss
        except psutil.NoSuchProcess:
            continue
    return total


def _ending(code: int, last_line: str) -> str:
    if code < 0:
        return f"The process was ended by {signal.Signals(-code).name}."
    return f"The process ended with code {code}: {last_line}"
