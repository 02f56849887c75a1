"""What code does to the world outside this process, which nothing can put back.

Listens to Python's audit events (PEP 578). A hook cannot be removed again, so there is one for
the process, added by the first comparison; outside of one it returns at once.
"""

from __future__ import annotations

import os
import sys
import threading
from typing import Any, Self

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
_listening: list[Effects] = []
_hooked = False


class Effects:
    """Listens for the length of a ``with`` block, to this thread alone.

    ``seen`` is what happened, each once, as clauses: ``writes out.csv``.
    """

    def __init__(self) -> None:
        self.seen: list[str] = []
        self._thread = threading.get_ident()

    def __enter__(self) -> Self:
        global _hooked  # noqa: PLW0603
        if not _hooked:
            _hooked = True
            sys.addaudithook(_hear)
        _listening.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        _listening.remove(self)

    def hear(self, event: str, details: tuple[Any, ...]) -> None:
        """Note one audit event, if it is one that leaves a trace outside."""
        if threading.get_ident() != self._thread:
            return
        said = ""
        if event == "open":
            path, _, flags = details
            if isinstance(path, (str, bytes)) and flags & _WRITING:
                said = f"writes {os.fsdecode(path)}"
        elif event in _EVENTS:
            first = details[0] if details else ""
            subject = f" {os.fsdecode(first)}" if isinstance(first, (str, bytes)) else ""
            said = _EVENTS[event] + subject
        if said and "__pycache__" not in said and said not in self.seen:
            self.seen.append(said)


def _hear(event: str, details: tuple[Any, ...]) -> None:
    if not _listening:
        return
    for listener in _listening:
        try:
            listener.hear(event, details)
        except Exception:  # noqa: BLE001, S112 - an error here would become the user's
            continue
