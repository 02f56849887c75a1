"""Files of the cache, one an entry: programs of engines, and normalised graphs.

A later process loads what an earlier one converted.
A program is what an engine is loaded from, without weights: these are read from the graph that it
serves. Each is a file of its own, a digest and then the program.
"""

import dataclasses
import hashlib
import itertools
import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from dynamo_ext.backends import crash_records, disk_cache
from dynamo_ext.backends.base import Backend, Lowered, LoweringRequest, fact
from dynamo_ext.backends.graph_key import program_key
from dynamo_ext.interruptions import failures, suppressed

MOST_BYTES = 256 * 2**20
"""Of all files; beyond it, those that were used longest ago go."""

EVERY = 32
"""Files that a process writes before it looks for old ones again: there may be thousands."""

_written = itertools.count()

_DIGEST = hashlib.sha256
_DIGEST_SIZE = _DIGEST().digest_size
_OTHERS = stat.S_IWGRP | stat.S_IWOTH


class EngineStore:
    """The files of one folder, which must be the user's alone. What cannot be kept is not."""

    def __init__(self, folder: Path | None = None) -> None:
        self.folder = folder or disk_cache.folder() / "engines"

    def find(self, key: str) -> bytes | None:
        """A program; a file that is not as it was written is removed, and a warning says so."""
        path = self.folder / key
        try:
            if not self._own():
                return None
            text = path.read_bytes()
            if _DIGEST(text[_DIGEST_SIZE:]).digest() == text[:_DIGEST_SIZE]:
                os.utime(path)
                return text[_DIGEST_SIZE:]
            path.unlink()
        except FileNotFoundError:
            return None
        except OSError as error:
            warn(f"{path} cannot be read ({error.strerror})")
            return None
        warn(f"{path} is damaged, and removed")
        return None

    def keep(self, key: str, program: bytes) -> None:
        """Write a program, whole or not at all."""
        self.put(key, _DIGEST(program).digest() + program)

    def put(self, key: str, content: bytes) -> None:
        """Write what one of `files` holds; `find` compares the digest in it."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            if not self._own():
                return
            path = self.folder / f"{key}.{os.getpid()}"
            path.write_bytes(content)
            path.replace(self.folder / key)
            if next(_written) % EVERY == 0:
                self._drop_oldest()
        except OSError as error:
            warn(f"{self.folder} cannot be written ({error.strerror})")

    def forget(self, key: str) -> None:
        """Drop one program."""
        with suppress(OSError):
            (self.folder / key).unlink()

    def clear(self) -> int:
        """Drop all programs; how many there were."""
        found = self.files()
        for *_, path in found:
            self.forget(path.name)
        return len(found)

    def _drop_oldest(self) -> None:
        files = self.files()
        total = sum(size for _, size, _ in files)
        for _, size, path in files:
            if total <= MOST_BYTES:
                break
            self.forget(path.name)
            total -= size

    def files(self) -> list[tuple[float, int, Path]]:
        """When each was used last, its size, and where it is; the longest unused first."""
        found = []
        with suppress(OSError):
            for path in self.folder.iterdir():
                # Another process may remove it meanwhile.
                with suppress(OSError):
                    facts = path.stat()
                    found.append((facts.st_mtime, facts.st_size, path))
        return sorted(found)

    def _own(self) -> bool:
        """Whether no other user can put programs there."""
        facts = self.folder.stat()
        if os.name != "posix" or (facts.st_uid == os.getuid() and not facts.st_mode & _OTHERS):
            return True
        warn(f"{self.folder} is not yours alone: give it to you, with mode 700")
        return False


def lowered(
    backend: Backend, request: LoweringRequest, attempt: crash_records.Attempt | None
) -> Lowered:
    """What a backend makes of a graph, or what it made of such a one in an earlier process.

    That is loaded in a thread, of which ``load`` then waits for the end: Dynamo writes its guards
    meanwhile. Raises what the backend raises.
    """
    versions = fact(backend, "program_versions")(request.options)
    key = None
    # What is not strided memory has no digest.
    with suppressed(Exception):
        key = program_key(request.graph, versions) if versions else None
    store = EngineStore()

    def forget(error: Exception) -> None:
        store.forget(key or "")
        warn(f"what it had of {backend.name} does not load ({error})")

    if key and (program := store.find(key)) is not None:
        try:
            loaded: Lowered = fact(backend, "restored")(request, program)
            load = loaded.load and _loading(loaded.load, attempt, forget)
            return dataclasses.replace(loaded, from_disk=True, load=load)
        except failures() as error:  # it is converted again
            forget(error)
    made: Lowered = fact(backend, "lower_for")(request)
    if key and made.program is not None:
        store.keep(key, made.program)
    return made


def _loading(
    load: Callable[[], None],
    attempt: crash_records.Attempt | None,
    forget: Callable[[Exception], None],
) -> Callable[[], None]:
    """Begin to load, and give what waits for it; that raises what loading raised."""
    failed: list[Exception] = []

    def begin() -> None:
        try:
            with crash_records.during(attempt, "compiling"):
                load()
        except Exception as error:  # noqa: BLE001 - raised where it is waited for
            failed.append(error)

    # A forked process that has no such thread does not wait for it, as it would for a future.
    thread = threading.Thread(target=begin, name="dynamo_ext loads an engine")
    thread.start()

    def wait() -> None:
        thread.join()
        if failed:
            forget(failed[0])
            raise failed[0]

    return wait


def warn(text: str) -> None:
    """Say once what is wrong with a file, or a folder, and that all goes on without it."""
    disk_cache.warn(f"of compiled graphs: {text}. The graph is compiled again.")
