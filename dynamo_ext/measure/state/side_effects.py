"""What code does to the world outside this process, which nothing can put back.

Listens to Python's audit events (PEP 578). A hook cannot be removed again, so there is one for
the process, added by the first comparison; outside of one it returns at once. An event is heard
before it takes place, so that it can also be refused.
"""

import builtins
import contextlib
import functools
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import torch

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_EVENTS = {
    "os.remove": "deletes",
    "os.rename": "renames",
    "os.rmdir": "deletes the folder",
    "os.mkdir": "makes the folder",
    "os.link": "links",
    "os.symlink": "links",
    "os.truncate": "cuts",
    "shutil.rmtree": "deletes the folder",
    "shutil.copyfile": "copies",
    "shutil.move": "moves",
    "sqlite3.connect": "opens the database",
    "socket.connect": "connects to the network",
    "socket.sendto": "sends to the network",
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.posix_spawn": "starts a process",
    "os.fork": "starts a process",
    "os.forkpty": "starts a process",
}
_WITHOUT_EVENT = (
    (builtins, "input", "asks for input"),
    (threading.Thread, "start", "starts a thread"),
    (torch, "save", "writes a file"),
)
"""A kernel has an ``input`` of its own; threads have an event from Python 3.12 on."""

_listening: list[tuple[int, list[str], bool]] = []


class RefusedEffectError(BaseException):
    """Raised in the place of an effect; no ``except Exception`` of the user's may handle it."""


@contextlib.contextmanager
def effects(*, refused: bool = False) -> Iterator[list[str]]:
    """Listen for the length of a ``with`` block, to this thread alone.

    The list is of what happened, each once, as clauses: ``writes out.csv``. Where effects are
    ``refused``, none takes place: ``RefusedEffectError`` is raised instead. Then threads and
    questions to the user are effects, too.
    """
    _add_hook()
    seen: list[str] = []
    _listening.append((threading.get_ident(), seen, refused))
    try:
        with _refusing(seen) if refused else contextlib.nullcontext():
            yield seen
    finally:
        _listening[:] = [each for each in _listening if each[1] is not seen]


@contextlib.contextmanager
def _refusing(seen: list[str]) -> Iterator[None]:
    """Refuse what has no event."""
    caller = threading.get_ident()

    def instead(clause: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # tqdm has a thread that watches its bars, and nothing else.
            watches = args and type(args[0]).__module__ == "tqdm._monitor"
            if threading.get_ident() != caller or watches:
                return function(*args, **kwargs)
            seen.append(clause)
            raise RefusedEffectError

        return call

    with contextlib.ExitStack() as left:
        for owner, name, clause in _WITHOUT_EVENT:
            function = getattr(owner, name)
            left.callback(setattr, owner, name, function)
            setattr(owner, name, instead(clause, function))
        yield


@functools.cache
def _add_hook() -> None:
    sys.addaudithook(functools.partial(_hear, _listening))


def _hear(
    listening: list[tuple[int, list[str], bool]], event: str, details: tuple[Any, ...]
) -> None:
    # Python 3.13 calls it as the process ends, too, when names of modules are gone.
    for thread, seen, refused in listening:
        said = ""
        # An error here would become the user's.
        with contextlib.suppress(Exception):
            if thread == threading.get_ident():
                said = _clause(event, details)
                said = "" if "__pycache__" in said else said
                if said and said not in seen:
                    seen.append(said)
        if said and refused:
            raise RefusedEffectError


def _clause(event: str, details: tuple[Any, ...]) -> str:
    """What an audit event did outside this process; empty where it leaves no trace there."""
    if event == "open":
        path, _, flags = details
        writes = isinstance(path, (str, bytes)) and flags & _WRITING
        return f"writes {os.fsdecode(path)}" if writes else ""
    if event not in _EVENTS:
        return ""
    first = details[0] if details else ""
    subject = f" {os.fsdecode(first)}" if first and isinstance(first, (str, bytes)) else ""
    return _EVENTS[event] + subject
