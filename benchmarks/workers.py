"""Rows from processes that may crash, hang or grow, each of which costs the item that it was at.

A module that measures goes through its items (``go_through``) and prints rows. ``rows`` starts it
as a process, watches it, and starts another one for what is left.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence

    from benchmarks.stored_row import StoredRow

T = TypeVar("T")

START_SECONDS = 180.0
"""More for a process's first item: it loads torch and an engine before."""

_MARK = "@worker "
"""Starts what is ours in a line of standard output; engines print things of their own."""

_DONE = "BENCHMARKS_DONE"
"""The environment's name for a file of the items that are done."""

_RENEW = 75
"""The exit status that asks for a fresh process, for the rest of the items."""

_MOST_KIB = 4 << 20
"""Resident memory beyond which a fresh process goes on: engines keep some of what they compile."""

_MOST_BARREN = 2
"""Processes in a row that end before their first item, after which no other is started."""

_GIB = 2**30
_PAUSE = 0.1
_ROOT = Path(__file__).parent.parent


@dataclass(frozen=True)
class Bounds:
    """What a process may use: wall-clock seconds by item, and GiB of resident memory.

    ``until`` is a time of ``time.monotonic`` after which nothing runs, whatever it is at.
    """

    seconds: float = 600.0
    memory: float = 12.0
    until: float = math.inf


@dataclass(frozen=True)
class Ended:
    """How a process ended that had no row for an item; ``late`` where it took too long."""

    reason: str
    late: bool = False


class WorkerError(RuntimeError):
    """A process cannot be started, or fails outside of any item."""


def go_through(
    items: Iterable[T],
    measure: Callable[[T], Iterable[StoredRow]],
    key: Callable[[T], object] = lambda item: item,
) -> int:
    """Print the rows of each item that is not done, and give the exit status of the process.

    Parameters
    ----------
    items
        In an order that is the same in each process.
    measure
        Gives an item's rows.
    key
        What names an item: a text or a number.
    """
    done = set(json.loads(Path(os.environ[_DONE]).read_text()) if _DONE in os.environ else ())
    for item in items:
        name = key(item)
        if name in done:
            continue
        _say(name, None)
        for row in measure(item):
            _say(name, row.to_dict())
        if resource.getrusage(resource.RUSAGE_SELF).ru_maxrss > _MOST_KIB:
            return _RENEW
    return 0


def _say(item: object, row: dict[str, Any] | None) -> None:
    print(f"\n{_MARK}{json.dumps([item, row])}", flush=True)


def rows(  # noqa: PLR0913 - what a process is started with, by keyword
    module: str,
    arguments: Sequence[str],
    bounds: Bounds,
    *,
    start: float = START_SECONDS,
    done: Iterable[Any] = (),
    environment: Mapping[str, str] | None = None,
) -> Generator[tuple[Any, dict[str, Any] | Ended], None, None]:
    """Each item of ``python -m benchmarks.<module>`` with a row, as they come, or with an end.

    Parameters
    ----------
    module
        Of this package.
    arguments
        For its command line.
    bounds
        Where it leaves them, it is ended.
    start
        Seconds more until a process's first row.
    done
        Items that are left out.
    environment
        More of it.

    Raises
    ------
    WorkerError
        Where processes end before they begin an item.
    """
    known = list(done)
    barren = 0
    while time.monotonic() < bounds.until:
        at = None
        barren += 1
        with _started(module, arguments, known, environment or {}) as process:
            for item, row in process.told(bounds, start):
                barren = 0
                if row is None:
                    at = item
                    known.append(item)
                else:
                    at = None
                    yield item, row
        if at is not None:
            yield at, process.end
        elif process.status == 0:
            return
        elif barren >= _MOST_BARREN and time.monotonic() < bounds.until:
            raise WorkerError(process.end.reason)


def command(main: Callable[[], int]) -> NoReturn:
    """Run a module as a command; where it is to end, the process under way ends, too."""
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    sys.exit(main())


def answer(module: str, arguments: Sequence[str], bounds: Bounds) -> dict[str, Any] | str:
    """The row of a module that measures one item, or why there is none."""
    try:
        with contextlib.closing(rows(module, arguments, bounds, start=0.0)) as found:
            said = next(found, (None, Ended("It measured nothing.")))[1]
    except WorkerError as error:
        return str(error)
    return said.reason if isinstance(said, Ended) else said


class _Process:
    """A process that goes through items, and what it says.

    Attributes
    ----------
    status
        Its exit status, once it has ended.
    end
        How it ended.
    """

    def __init__(self, process: subprocess.Popen[bytes], output: Path, errors: Path) -> None:
        self._process = process
        self._output = output
        self._errors = errors
        self.status = 0
        self.end = Ended("")

    def told(self, bounds: Bounds, start: float) -> Iterator[tuple[Any, dict[str, Any] | None]]:
        """Items as they begin, and as they have rows, until it ends or leaves its bounds."""
        deadline = time.monotonic() + bounds.seconds + start
        buffered = b""
        with self._output.open("rb") as output:
            while not self.end.reason:
                ended = self._process.poll() is not None
                *lines, buffered = (buffered + output.read()).split(b"\n")
                for line in lines:
                    _, mark, said = line.decode(errors="replace").partition(_MARK)
                    if mark:
                        item, row = json.loads(said)
                        start = 0.0 if row else start
                        deadline = time.monotonic() + bounds.seconds + start
                        yield item, row
                if ended:
                    words = self._errors.read_text(errors="replace").strip().splitlines()
                    self.end = Ended(ending(self._process.returncode, (words or [""])[-1]))
                elif time.monotonic() > bounds.until:
                    self.end = Ended("It had no result when the time for all was over.", late=True)
                elif time.monotonic() > deadline:
                    self.end = Ended(f"It had no result after {bounds.seconds:.0f} s.", late=True)
                elif _resident(self._process.pid) > bounds.memory * _GIB:
                    self.end = Ended(f"It used more than {bounds.memory:g} GiB of memory.")
                else:
                    time.sleep(_PAUSE)
        self.stop()

    def stop(self) -> None:
        """End it with all that it started, if it has not ended."""
        if self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
        self.status = self._process.wait()


@contextlib.contextmanager
def _started(
    module: str, arguments: Sequence[str], done: Sequence[Any], environment: Mapping[str, str]
) -> Iterator[_Process]:
    with tempfile.TemporaryDirectory() as folder:
        output, errors, known = (Path(folder, name) for name in ("output", "errors", "done"))
        known.write_text(json.dumps(done))
        usual = {"HF_HUB_OFFLINE": "1", "DYNAMO_EXT_UNRECORDED": "1", _DONE: str(known)}
        with output.open("wb") as out, errors.open("wb") as err:
            process = subprocess.Popen(  # noqa: S603 - this interpreter, on our own module
                [sys.executable, "-m", f"benchmarks.{module}", *arguments],
                stdout=out,
                stderr=err,
                env={**os.environ, **usual, **environment},
                cwd=_ROOT,
                start_new_session=True,
            )
        worker = _Process(process, output, errors)
        try:
            yield worker
        finally:
            worker.stop()


def _resident(pid: int) -> int:
    """Bytes in memory of a process and of those that it started (compilers)."""
    import psutil

    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        process = psutil.Process(pid)
        for each in (process, *process.children(recursive=True)):
            with contextlib.suppress(psutil.NoSuchProcess):
                total += each.memory_info().rss
    return total


def ending(code: int, last_line: str) -> str:
    """How a process ended, of which this is the last line that it said."""
    if code < 0:
        return f"The process was ended by {signal.Signals(-code).name}."
    return f"The process ended with code {code}: {last_line}"
