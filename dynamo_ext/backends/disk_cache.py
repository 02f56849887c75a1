"""What later processes are to know: one SQLite file in the user's cache, a table for each kind.

Several processes may use it at once. Rows are text, which the caller checks.
"""

# ruff: noqa: S608 - the names in SQL are those of our tables
import functools
import os
import platform
import re
import sqlite3
import threading
import time
import warnings
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path
from typing import ClassVar

import torch

from dynamo_ext.errors import FallbackWarning

FOLDER = "DYNAMO_EXT_CACHE"
"""An environment variable: the folder of the cache, in place of the platform's."""

TABLES = ("contests", "answers", "turn_trials")

_SCHEMA = """
CREATE TABLE IF NOT EXISTS {} (
    key TEXT NOT NULL, place TEXT NOT NULL, value TEXT NOT NULL, made REAL NOT NULL,
    PRIMARY KEY (key, place)
)
"""
_WAIT = 10.0
"""Seconds to wait for another process, at most."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNREADABLE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
    # A table of our name that is not ours.
    sqlite3.SQLITE_ERROR,
)

_AGAIN = "Races and trials of operations are run again."

Row = tuple[object, ...]
"""``key``, ``place``, ``value`` and ``made``, in seconds since 1970."""

_warned: set[str] = set()


def folder() -> Path:
    """Where this file and the records of crashes are."""
    import platformdirs

    return Path(os.environ.get(FOLDER) or platformdirs.user_cache_dir("dynamo_ext"))


def warn(text: str) -> None:
    """Say once what is wrong with the cache, and what follows."""
    if text not in _warned:
        _warned.add(text)
        warnings.warn(f"dynamo_ext's cache {text}", FallbackWarning, stacklevel=2)


class _ForeignError(sqlite3.DatabaseError):
    """The file is a database, and another program's."""


class Table:
    """One table of the file; a subclass names it. The file is made when something is first kept.

    One that is not such a cache (damaged, or another program's) is put aside under another name and
    a new one begun, with a warning. Where the file cannot be used for another reason (a full disk,
    no right to write), it stays as it is: nothing is kept, and one warning says so.
    """

    name: ClassVar[str]
    most: ClassVar[int] = 20_000
    """Rows that stay, newest first."""

    def __init__(self, path: Path | None = None) -> None:
        self.path = path or folder() / "cache.sqlite"
        self._lock = threading.Lock()

    def rows(self, where: str = "1", *values: object) -> list[Row]:
        """Rows that fulfil an SQL condition, newest first."""
        text = f"SELECT key, place, value, made FROM {self.name} WHERE {where} ORDER BY made DESC"
        return self._ask(text, [values])

    def keep(self, rows: Iterable[Row]) -> None:
        """Add rows, or replace those of the same key and place."""
        self._ask(f"INSERT OR REPLACE INTO {self.name} VALUES (?, ?, ?, ?)", rows, create=True)

    def forget(self, key: str, place: str) -> None:
        """Drop one row."""
        self._ask(f"DELETE FROM {self.name} WHERE key = ? AND place = ?", [(key, place)])

    def clear(self) -> int:
        """Drop every row; how many there were."""
        count = len(self._ask(f"SELECT 1 FROM {self.name}"))
        self._ask(f"DELETE FROM {self.name}")
        return count

    def _ask(self, text: str, values: Iterable[Row] = ((),), *, create: bool = False) -> list[Row]:
        with self._lock:
            try:
                if not self.path.exists() and not create:
                    return []
                return self._run(text, values)
            except (sqlite3.Error, OSError) as error:
                if not isinstance(error, _ForeignError) and _code(error) not in _UNREADABLE:
                    # Another process may hold it for longer than it is worth waiting.
                    if _code(error) not in _BUSY:
                        warn(f"cannot be used now ({error}): {self.path}. {_AGAIN}")
                    return []
                self._put_aside(error)
            with suppress(sqlite3.Error, OSError):
                return self._run(text, values)
        return []

    def _run(self, text: str, values: Iterable[Row]) -> list[Row]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as connection, connection:
            # A damaged text is for the caller to refuse: the other rows are good.
            connection.text_factory = functools.partial(str, encoding="utf-8", errors="replace")
            _check_owner(connection)
            connection.execute(_SCHEMA.format(self.name))
            found = [row for each in values for row in connection.execute(text, each)]
            if text.startswith("INSERT"):
                older = (
                    f"SELECT made FROM {self.name} ORDER BY made DESC LIMIT 1 OFFSET {self.most}"
                )
                connection.execute(f"DELETE FROM {self.name} WHERE made <= ({older})")
            return found

    def _put_aside(self, error: Exception) -> None:
        kind = "foreign" if isinstance(error, _ForeignError) else "damaged"
        aside = f"{self.path.name}.{kind}-{os.getpid()}-{time.time_ns()}"
        # What was written last may be in the log beside the file, and is found by its name.
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self.path.with_name(self.path.name + suffix).replace(
                    self.path.with_name(aside + suffix)
                )
        warn(f"could not be read ({error}); it is now {aside}. {_AGAIN}")


def _check_owner(connection: sqlite3.Connection) -> None:
    """Raise where another program made the file, before anything is written to it."""
    [[application]] = connection.execute("PRAGMA application_id")
    found = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    names = {name for (name,) in found}
    if application or (names and names.isdisjoint(TABLES)):
        message = "it belongs to another program"
        raise _ForeignError(message)


def _code(error: Exception) -> int | None:
    """SQLite's primary result code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


@functools.cache
def device_model(device: torch.device) -> str:
    """A device's model name: ``NVIDIA H100``, ``AMD EPYC (2 cores, AVX2)``.

    Virtual machines on several generations of a processor give it one name; which vector
    instructions it has tells them apart, and decides races.
    """
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    info = Path("/proc/cpuinfo")
    text = info.read_text(encoding="utf-8", errors="replace") if info.exists() else ""
    found = re.search(r"^model name\s*:(.*)$", text, re.MULTILINE)
    name = found[1].strip() if found else platform.processor() or platform.machine()
    return f"{name} ({os.cpu_count()} cores, {torch.backends.cpu.get_cpu_capability()})"
