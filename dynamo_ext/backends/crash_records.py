"""Records of engines at work on a graph, on disk until they end: a crash leaves its record there.

An engine that crashes takes the kernel with it, and would again at every start. So a file says that
engine X compiles graph K, or runs it for the first time. The process holds a lock on the file for
as long, which the system lets go of when the process ends, however it ends: a file with a record
without a lock is that of a process which ended meanwhile. It may have crashed, or have been killed.
Python's ``faulthandler`` writes what a crash was behind the record, which then counts at once;
without that it counts from the second process on. SIGTERM, an exit and a shut-down of the kernel
take it back.
"""

from __future__ import annotations

import atexit
import contextlib
import faulthandler
import functools
import hashlib
import json
import os
import signal
import threading
import time
import weakref
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from dynamo_ext.errors import RecordFormatError
from dynamo_ext.records.common import checked, plain

try:
    import fcntl
except ImportError:  # without locks nothing is recorded
    fcntl = None  # type: ignore[assignment]

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from torch.fx import GraphModule

REMEDY = (
    "Run %dynamo cache clear to have it tried again, as after an update, or where you ended the "
    "process yourself."
)

MOST = 256
"""Records that stay, newest first."""

UNRECORDED = "DYNAMO_EXT_UNRECORDED"
"""With this in its environment a process records nothing: tests and sweeps, which may be killed."""

Stage = Literal["compiling", "first running"]


@dataclass(frozen=True)
class Unfinished:
    """What an engine did to a graph when its process ended; ``made`` is seconds since 1970.

    It is the record of ``processes``, one after the other, of which only the last can have crashed.
    """

    engine: str
    version: str
    graph: str
    stage: Stage
    made: float
    processes: int = 1
    crashed: bool = False

    @property
    def counts(self) -> bool:
        """Whether the engine is left out: once may be a restart."""
        return self.crashed or self.processes > 1

    @property
    def message(self) -> str:
        """What happened, and what is done about it, in one sentence."""
        day = time.strftime("%Y-%m-%d", time.localtime(self.made))
        doing = "compiled this graph" if self.stage == "compiling" else "first ran this graph"
        ended = "A process crashed" if self.crashed else f"{self.processes} processes ended"
        return f"{ended} while {self.engine} {doing} ({day}), so eager runs it."


_open: weakref.WeakSet[Attempt] = weakref.WeakSet()


def folder() -> Path:
    """Where the records are."""
    from dynamo_ext.backends import disk_cache

    return disk_cache.folder() / "unfinished"


def _is_off() -> bool:
    return fcntl is None or UNRECORDED in os.environ


class Attempt:
    """An engine on a captured graph: a block in ``during`` is on record until it ends.

    Blocks may be nested and may be entered by several threads; the outermost one counts. Where the
    folder cannot be written, or another process does the same, nothing is recorded. ``graph`` is
    the graph's key (``graph_key``). A record of another version of the engine is ignored.
    """

    def __init__(self, engine: str, version: str, graph: str) -> None:
        self._facts = (engine, version, graph)
        name = hashlib.sha256("\n".join(self._facts).encode()).hexdigest()[:32]
        self._path = folder() / f"{name}.json"
        self._lock = threading.Lock()
        self._depth = 0
        self._file: int | None = None
        # How many processes have ended at it before, until it has run.
        self._ended = 0
        self._handlers = contextlib.ExitStack()

    @classmethod
    def of(
        cls, engine: str, version: str, graph: GraphModule, inputs: Sequence[Any]
    ) -> Attempt | None:
        """The attempt at a captured graph; none where nothing is to be recorded."""
        if _is_off():
            return None
        from dynamo_ext.backends.fx_graph import may_differentiate
        from dynamo_ext.backends.graph_key import graph_key

        try:
            key = graph_key(graph, inputs, training=may_differentiate(inputs))
            return cls(engine, version, key)
        except Exception:  # noqa: BLE001 - what has no key goes without
            return None

    def died(self) -> Unfinished | None:
        """What a process did not live to finish, if that was the engine on this graph."""
        found = () if _is_off() else _records([self._path])
        return next((record for record in found if record.counts), None)

    @contextlib.contextmanager
    def during(self, stage: Stage) -> Iterator[None]:
        """Keep a record of the stage while the block runs; an exception ends it as well."""
        try:
            with self._lock:
                self._depth += 1
                if self._depth == 1 and not _is_off():
                    self._begin(stage)
            yield
        finally:
            with self._lock:
                # An interrupt may come before it was counted: rather no record than one too long.
                self._depth = max(self._depth - 1, 0)
                if not self._depth:
                    self._end()
                    self._ended *= stage == "compiling"

    def _begin(self, stage: Stage) -> None:
        with contextlib.suppress(OSError):
            _prune(folder())
            if (file := _locked(self._path)) is None:
                return
            last = _read(file)
            if last is not None and last.counts:
                # Found before compiling, unless another process ended since then.
                os.close(file)
                return
            self._file = file
            _open.add(self)
            self._ended = last.processes if last is not None else self._ended
            record = Unfinished(*self._facts, stage, time.time(), self._ended + 1)
            # What was written in part, as on a full disk, says nothing to those who read it.
            os.ftruncate(file, 0)
            os.write(file, f"{json.dumps(asdict(record))}\n".encode())
            self._handle(file)

    def _handle(self, file: int) -> None:
        """Have a crash and SIGTERM noted behind the record, in C, where nothing handles them."""
        if not faulthandler.is_enabled():
            # Beforehand: an interrupt may come between them.
            self._handlers.callback(faulthandler.disable)
            faulthandler.enable(file, all_threads=False)
        # Only Linux says what is handled in C. Elsewhere this raises, and SIGTERM is not noted.
        caught = Path("/proc/self/status").read_text("utf-8").partition("SigCgt:")[2].split()[0]
        if not int(caught, 16) >> signal.SIGTERM - 1 & 1:
            self._handlers.callback(faulthandler.unregister, signal.SIGTERM)
            faulthandler.register(signal.SIGTERM, file, all_threads=False, chain=True)

    def _end(self, *, forked: bool = False) -> None:
        """Take the record back; in a forked process it stays, for it is the parent's."""
        file, self._file = self._file, None
        if file is None:
            return
        self._handlers.close()
        _open.discard(self)
        # Emptied first: another process may have opened the file, and may lock it any moment.
        with contextlib.suppress(OSError):
            if not forked:
                os.ftruncate(file, 0)
                self._path.unlink()
        with contextlib.suppress(OSError):
            os.close(file)


def during(attempt: Attempt | None, stage: Stage) -> contextlib.AbstractContextManager[None]:
    """``attempt.during``; nothing where there is none."""
    return contextlib.nullcontext() if attempt is None else attempt.during(stage)


def all_of() -> list[Unfinished]:
    """What processes did not live to finish and engines are left out for, newest first."""
    return [record for record in _records(_files()) if record.counts]


def clear() -> int:
    """Forget it, so that every engine is tried again; how many records there were."""
    count = 0
    for path, record in _unheld(_files()):
        with contextlib.suppress(OSError):
            path.unlink()
            count += record is not None and record.counts
    return count


def _files() -> list[Path]:
    return sorted(folder().glob("*.json"))


def _locked(path: Path) -> int | None:
    """A descriptor of the file, which is made where there is none, locked; none if it is another's.

    A file that its owner removed between the two steps is none: the next try makes a new one.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    for _ in range(3):
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if os.fstat(file).st_nlink:
                return file
        except OSError:
            os.close(file)
            return None
        os.close(file)
    return None


def _read(file: int) -> Unfinished | None:
    """The record in a file; what is none, as an emptied or a damaged one, says nothing.

    Nor does one of a process that SIGTERM has ended.
    """
    text, _, noted = os.pread(file, 4096, 0).partition(b"\n")
    crashed = noted.startswith(b"Fatal")
    try:
        record = checked(Unfinished, plain(text))
    except RecordFormatError:
        return None
    return replace(record, crashed=crashed) if crashed or not noted else None


def _unheld(paths: Iterable[Path]) -> Iterator[tuple[Path, Unfinished | None]]:
    """Those of the files that no living process holds, and their records."""
    if fcntl is None:
        return
    for path in paths:
        with contextlib.suppress(OSError):
            file = os.open(path, os.O_RDWR)
            try:
                # Not for itself alone: two processes may look at once.
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
                yield path, _read(file)
            finally:
                os.close(file)


def _records(paths: Iterable[Path]) -> list[Unfinished]:
    found = [record for _, record in _unheld(paths) if record]
    return sorted(found, key=lambda record: -record.made)


@functools.cache
def _prune(_folder: Path) -> None:
    """Drop what says nothing, and the oldest of too many; once for each process and folder."""
    kept = _records(_files())[:MOST]
    for path, found in _unheld(_files()):
        if found not in kept:
            with contextlib.suppress(OSError):
                path.unlink()


@atexit.register
def end_all(_change: object = None) -> None:
    """End what other threads are at: the process is about to end, and not by a crash."""
    for attempt in list(_open):
        attempt._end()  # noqa: SLF001 - our own


def _in_child() -> None:
    """The lock is the parent's, and must end with it."""
    for attempt in list(_open):
        # Of a forked process's own copy.
        attempt._depth, attempt._lock = 0, threading.Lock()  # noqa: SLF001
        attempt._end(forked=True)  # noqa: SLF001


# Windows has no fork.
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)
