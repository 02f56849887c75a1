"""How long a backend may take over a graph where others are tried beside it.

Who asks for one backend gets it, however long it takes, and may interrupt. Where several are
tried, one that does not come to an end must not keep the others, and eager, from the user. Where
sizes are symbolic, Inductor (torch 2.13.0) is at Swin's windows for more than twenty minutes: its
``stride_at`` simplifies nested remainders with sympy.
"""

from __future__ import annotations

import contextlib
import ctypes
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

REMEDY = "Give it longer with compile_budget, if it only takes long; leave it out if it has no end."

_AGAIN = 5.0
"""Seconds after which an exception is sent once more: it is lost where it meets a finaliser."""

_allowed: ContextVar[float | None] = ContextVar("dynamo_ext_patience", default=None)


@contextlib.contextmanager
def allowing(seconds: float) -> Iterator[None]:
    """Let every backend have so many seconds for a graph, within the block."""
    token = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(token)


@contextlib.contextmanager
def bounded() -> Iterator[None]:
    """Raise ``TimeoutError`` in the block once it has taken what is allowed; never, by default.

    The exception comes between two lines of Python: a library that computes for long within one
    call is not stopped before it returns.
    """
    seconds = _allowed.get()
    if seconds is None:
        yield
        return

    class LateError(BaseException):
        """Of this block alone, and no ``Exception``, which a library may take for its own."""

    over = threading.Event()
    thread = ctypes.c_ulong(threading.get_ident())

    def watch() -> None:
        wait = seconds
        while not over.wait(wait):
            _send(thread, LateError)
            wait = _AGAIN

    def end() -> None:
        over.set()
        watcher.join()
        # What was sent and has not come must not come later.
        _send(thread, None)

    watcher = threading.Thread(target=watch, daemon=True, name="dynamo-ext-patience")
    try:
        try:
            watcher.start()
            yield
        finally:
            end()
    except LateError:
        # It may have come within ``end``; the next would be seconds away.
        end()
        message = f"It was not compiled after {seconds:g} s."
        raise TimeoutError(message) from None


def _send(thread: ctypes.c_ulong, exception: type[BaseException] | None) -> None:
    kind = ctypes.py_object(exception) if exception is not None else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, kind)
