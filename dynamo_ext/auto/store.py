"""Races remembered on disk: one SQLite file, which several kernels may use at once."""

from __future__ import annotations

import dataclasses
import json
import os
import sqlite3
import threading
import time
import warnings
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import cattrs

from dynamo_ext.errors import FallbackWarning, RecordFormatError
from dynamo_ext.records import Contest

FORMAT = 1
_SCHEMA = """
CREATE TABLE IF NOT EXISTS contests (
    graph TEXT NOT NULL,
    place TEXT NOT NULL,
    contest TEXT NOT NULL,
    made REAL NOT NULL,
    PRIMARY KEY (graph, place)
)
"""
_WAIT = 10.0
_PAUSE = 0.02
"""Seconds, to wait for another kernel at most, and between two tries."""
_BUSY = (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)
_UNREADABLE = (
    sqlite3.SQLITE_CORRUPT,
    sqlite3.SQLITE_FORMAT,
    sqlite3.SQLITE_NOTADB,
    # A table of our name that is not ours.
    sqlite3.SQLITE_ERROR,
)


class _ForeignError(sqlite3.DatabaseError):
    """The file is a database, and another program's."""


@dataclass(frozen=True)
class Entry:
    """One remembered race; ``made`` is seconds since 1970."""

    graph: str
    place: str
    contest: Contest
    made: float


class Store:
    """A file of races.

    A file that is no such store (damaged, or another program's) is put aside under another name
    and a new one begun, with a warning. Where the file cannot be used for another reason (a full
    disk, no right to write), it stays as it is: nothing is remembered, and that is said once.

    Parameters
    ----------
    path
        Where it is; its folder is made when something is first remembered.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._said: set[str] = set()

    def find(self, graph: str, place: str) -> Entry | None:
        """The race of this graph at this place, if there was one."""
        rows = self._ask(
            "SELECT graph, place, contest, made FROM contests WHERE graph = ? AND place = ?",
            (graph, place),
        )
        return _entry(rows[0]) if rows else None

    def all(self) -> list[Entry]:
        """Every race, newest first."""
        rows = self._ask("SELECT graph, place, contest, made FROM contests ORDER BY made DESC")
        return [entry for entry in map(_entry, rows) if entry is not None]

    def remember(self, graph: str, place: str, contest: Contest, made: float | None = None) -> None:
        """Keep a race, instead of an earlier one of the same graph at the same place."""
        text = json.dumps(dataclasses.asdict(contest))
        self._ask(
            "INSERT OR REPLACE INTO contests VALUES (?, ?, ?, ?)",
            (graph, place, text, time.time() if made is None else made),
            create=True,
        )

    def crashed(self, graph: str, place: str) -> set[str]:
        """Backends whose process died on this graph, on this device, in the version of now."""
        here = _facts(place)
        rows = self._ask(
            "SELECT graph, place, contest, made FROM contests WHERE graph = ?", (graph,)
        )
        found = set()
        for entry in filter(None, map(_entry, rows)):
            there = _facts(entry.place)
            if there.get("device") != here.get("device"):
                continue
            for row in entry.contest.contestants:
                version = there.get("backends", {}).get(row.backend)
                same = version == here.get("backends", {}).get(row.backend)
                if row.outcome == "crashed" and same:
                    found.add(row.backend)
        return found

    def forget(self, graph: str, place: str) -> None:
        """Drop one race: its winner turned out wrong."""
        self._ask("DELETE FROM contests WHERE graph = ? AND place = ?", (graph, place))

    def clear(self) -> int:
        """Forget every race; how many there were."""
        count = len(self._ask("SELECT 1 FROM contests"))
        self._ask("DELETE FROM contests")
        return count

    def export(self, path: Path) -> int:
        """Write every race to a JSON file; how many there are."""
        entries = [dataclasses.asdict(entry) for entry in self.all()]
        text = json.dumps({"format": FORMAT, "contests": entries}, indent=1)
        path.write_text(text, encoding="utf-8")
        return len(entries)

    def take(self, path: Path) -> int:
        """Read what ``export`` wrote, perhaps on another machine of the same kind; how many.

        Raises
        ------
        RecordFormatError
            Where the file is none, or cannot be read.
        """
        remedy = "Give a file that %dynamo cache export wrote."
        try:
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["format"] != FORMAT:
                message = f"{path} has format {record['format']!r}; this version reads {FORMAT}."
                raise RecordFormatError(message, "Export it again with this version.")
            entries = cattrs.structure(record["contests"], list[Entry])
        except FileNotFoundError:
            message = f"There is no file {path}."
            raise RecordFormatError(message, remedy) from None
        except OSError as error:
            message = f"{path} cannot be read: {(error.strerror or type(error).__name__).lower()}."
            raise RecordFormatError(message, remedy) from None
        except (ValueError, KeyError, TypeError, cattrs.BaseValidationError) as error:
            message = f"{path} is no export of races: {type(error).__name__}."
            raise RecordFormatError(message, remedy) from None
        for entry in entries:
            self.remember(entry.graph, entry.place, entry.contest, entry.made)
        return len(entries)

    def _ask(
        self, text: str, values: tuple[object, ...] = (), *, create: bool = False
    ) -> list[tuple[object, ...]]:
        with self._lock:
            try:
                if not self.path.exists() and not create:
                    return []
                return self._patiently(text, values)
            except (sqlite3.Error, OSError) as error:
                if not _is_unreadable(error):
                    self._go_without(error)
                    return []
                self._put_aside(error)
            with suppress(sqlite3.Error, OSError):
                return self._run(text, values)
        return []

    def _patiently(self, text: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        """Wait for another kernel that makes the file: SQLite does not while it switches to WAL."""
        until = time.monotonic() + _WAIT
        while True:
            try:
                return self._run(text, values)
            except sqlite3.OperationalError as error:
                if _code(error) not in _BUSY or time.monotonic() > until:
                    raise
            time.sleep(_PAUSE)

    def _run(self, text: str, values: tuple[object, ...]) -> list[tuple[object, ...]]:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with closing(sqlite3.connect(self.path, timeout=_WAIT)) as connection, connection:
            _check_owner(connection)
            connection.execute("PRAGMA journal_mode=WAL")
            connection.execute(_SCHEMA)
            return list(connection.execute(text, values).fetchall())

    def _put_aside(self, error: Exception) -> None:
        kind = "foreign" if isinstance(error, _ForeignError) else "damaged"
        aside = f"{self.path.name}.{kind}-{os.getpid()}-{time.time_ns()}"
        # What was written last may be in the log beside the file, and is found by its name.
        for suffix in ("", "-wal", "-shm"):
            with suppress(OSError):
                self.path.with_name(self.path.name + suffix).replace(
                    self.path.with_name(aside + suffix)
                )
        said = f"The file of remembered races could not be read ({error}); it is now {aside}."
        warnings.warn(f"{said} Races are run anew.", FallbackWarning, stacklevel=2)

    def _go_without(self, error: Exception) -> None:
        # Another kernel may hold it for longer than it is worth waiting.
        if _code(error) in _BUSY or str(error) in self._said:
            return
        self._said.add(str(error))
        said = f"The file of remembered races cannot be used now ({error}): {self.path}."
        warnings.warn(f"{said} Races are run anew.", FallbackWarning, stacklevel=2)


def _check_owner(connection: sqlite3.Connection) -> None:
    """Raise where another program made the file, before anything is written to it."""
    [[application]] = connection.execute("PRAGMA application_id")
    found = connection.execute("SELECT name FROM sqlite_master WHERE name NOT LIKE 'sqlite_%'")
    names = {name for (name,) in found}
    if application or (names and "contests" not in names):
        message = "it belongs to another program"
        raise _ForeignError(message)


def _is_unreadable(error: Exception) -> bool:
    return isinstance(error, _ForeignError) or _code(error) in _UNREADABLE


def _code(error: Exception) -> int | None:
    """SQLite's primary result code."""
    code = getattr(error, "sqlite_errorcode", None)
    return None if code is None else code & 0xFF


def _entry(row: tuple[object, ...]) -> Entry | None:
    graph, place, text, made = row
    try:
        contest = cattrs.structure(json.loads(str(text)), Contest)
    except (ValueError, cattrs.BaseValidationError):
        return None
    return Entry(str(graph), str(place), contest, float(str(made)))


def _facts(place: str) -> dict[str, Any]:
    try:
        found = json.loads(place)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def default_store() -> Store:
    """The user's own store, in the platform's cache folder."""
    import platformdirs

    return Store(Path(platformdirs.user_cache_dir("dynamo_ext")) / "races.sqlite")
