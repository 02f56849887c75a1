"""A process within bounds of time and memory."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Generator

_GIB = 2**30
_PAUSE = 0.1


@dataclass(frozen=True)
class Bounds:
    """What a process may use: wall-clock seconds by model, and GiB of resident memory."""

    seconds: float = 600.0
    memory: float = 12.0


def watch(process: subprocess.Popen[bytes], bounds: Bounds) -> Generator[str | None, None, None]:
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


def ending(code: int, last_line: str) -> str:
    """How a process ended, of which this is the last line that it said."""
    if code < 0:
        return f"The process was ended by {signal.Signals(-code).name}."
    return f"The process ended with code {code}: {last_line}"
