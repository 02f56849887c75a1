"""One measurement in a fresh process of its own, which may crash, exit, hang or run out of memory.

It is a new interpreter: a fork of a process in which torch has threads hangs, and a process of
``multiprocessing`` runs the user's script again.
"""

import contextlib
import math
import os
import pickle
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from dynamo_ext.backends.crash_records import UNRECORDED
from dynamo_ext.measure.remote.worker import Answer

START_SECONDS = 300.0
"""How long a process may take to start and import torch, which is not the candidate's doing."""

_PLACE = re.compile(r'^  File "(?P<file>.*)", line (?P<line>\d+) in (?P<name>.+)$', re.MULTILINE)
_LOOK_SECONDS = 0.1

_PROGRAM = """
import faulthandler, pathlib, pickle, signal, sys
# A terminal sends an interrupt to all processes; the one that asks deals with it.
signal.signal(signal.SIGINT, signal.SIG_IGN)
sys.path[:], sys.argv[:], folder = {given}
from dynamo_ext.measure.remote import worker
faults = open(folder + "/faults", "w")
# Of the thread that crashed: others only wait.
faulthandler.enable(faults, all_threads=False)
open(folder + "/ready", "w").close()
answer = worker.measure(sys.stdin.buffer.read())
written = pathlib.Path(folder, "written")
written.write_bytes(pickle.dumps(answer))
written.rename(folder + "/answer")
# Engines clean up after themselves as the process ends, but that may not take for ever.
faulthandler.dump_traceback_later(10, exit=True, file=faults)
"""


def measure_alone(packed: bytes, seconds: float) -> Answer:
    """Measure what ``serialization.pack`` packed in a new process, and end it.

    It is stopped ``seconds`` after it has started. After a ``KeyboardInterrupt`` the process is
    gone, too.
    """
    with tempfile.TemporaryDirectory(prefix="dynamo_ext_") as folder:
        program = _PROGRAM.format(given=(sys.path, sys.argv, folder))
        command, stopped = [sys.executable, "-c", program], ""
        # It is for this that it has a process of its own: what ends it is a row.
        environment = {**os.environ, UNRECORDED: "1"}
        with subprocess.Popen(command, stdin=subprocess.PIPE, env=environment) as process:  # noqa: S603
            try:
                _wait_for_start(process, Path(folder, "ready"))
                process.communicate(packed, seconds if math.isfinite(seconds) else None)
            except subprocess.TimeoutExpired as error:
                stopped = f"It was stopped after {error.timeout:.0f} s."
            finally:
                _end(process)
        answer, faults = Path(folder, "answer"), Path(folder, "faults")
        if answer.exists():
            found: Answer = pickle.loads(answer.read_bytes())  # noqa: S301 - our own
            return found
        if stopped:
            remedy = "If it only takes long to compile, give it a larger first_run."
            return Answer(None, stopped, remedy)
        trace = faults.read_text(errors="replace") if faults.exists() else ""
        return death(process.returncode, trace)


def _wait_for_start(process: subprocess.Popen[bytes], ready: Path) -> None:
    ends = time.monotonic() + START_SECONDS
    while not ready.exists() and process.poll() is None:
        if time.monotonic() > ends:
            raise subprocess.TimeoutExpired(process.args, START_SECONDS)
        time.sleep(_LOOK_SECONDS)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process that has not ended by itself, and what it has started."""
    if process.poll() is None:
        for each in psutil.Process(process.pid).children(recursive=True):
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()
        process.kill()
        process.wait()


def death(code: int, trace: str) -> Answer:
    """How a process ended, by its exit code and what ``faulthandler`` wrote, and the remedy."""
    number, remedy = -code, ""
    if code >= 0:
        said = f"Its process exited by itself (code {code})."
    elif number == signal.SIGKILL:
        said = f"Its process was killed (signal {number}), as the system does when memory runs out."
        remedy = "Try it with a smaller batch, or free memory."
    else:
        named = (signal.strsignal(number) or "unknown").lower()
        said = f"Its process died (signal {number}, {named})."
    if (place := _PLACE.search(trace)) is not None:
        said += f" It was in {place['name']} ({place['file']}, line {place['line']})."
    return Answer(None, said, remedy)
