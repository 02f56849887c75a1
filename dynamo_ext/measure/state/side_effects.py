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
from collections.abc import Iterator
from typing import Any

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_TRUNC
_EVENTS = {
    "os.remove": "deletes",
    "os.rename": "renames",
    "os.rmdir": "deletes the folder",
    "os.mkdir": "makes the folder",
    "shutil.rmtree": "deletes the folder",
    "shutil.copyfile": "copies",
    "shutil.move": "moves",
    "socket.connect": "connects to the network",
    "subprocess.Popen": "starts a process",
    "os.system": "starts a process",
    "os.posix_spawn": "starts a process",
}
_ALSO_REFUSED = {
    "os.fork": "starts a process",
    "_thread.start_new_thread": "starts a thread",
    "_thread.start_joinable_thread": "starts a thread",
}
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
    ask = builtins.input
    try:
        if refused:
            # A kernel's own sends a message, of which Python knows nothing.
            builtins.input = functools.partial(_refuse_to_ask, seen)
        yield seen
    finally:
        builtins.input = ask
        _listening[:] = [each for each in _listening if each[1] is not seen]


def _refuse_to_ask(seen: list[str], *_: object) -> str:
    seen.append("asks for input")
    raise RefusedEffectError


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
                said = _clause(event, details) or (_ALSO_REFUSED.get(event, "") if refused else "")
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
    subject = f" {os.fsdecode(first)}" if isinstance(first, (str, bytes)) else ""
    return _EVENTS[event] + subject
