"""How long a backend may take over a graph where others are tried beside it.

Who asks for one backend gets it, however long it takes, and may interrupt. Where several are
tried, one that does not come to an end must not keep the others, and eager, from the user. Where
sizes are symbolic, Inductor (torch 2.13.0) is at Swin's windows for more than twenty minutes: its
``stride_at`` simplifies nested remainders with sympy.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys
import threading
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

T = TypeVar("T")

REMEDY = "Give it longer with compile_budget, if it only takes long; leave it out if it has no end."

_AGAIN = 5.0
"""Seconds after which an exception is sent once more: it is lost where it meets a finaliser."""

_LOOKS = 10
"""Turns of a loop, each of which looks for an exception from another thread; one would do."""

_allowed: ContextVar[float | None] = ContextVar("dynamo_ext_patience", default=None)


@contextlib.contextmanager
def allowing(seconds: float) -> Iterator[None]:
    """Let every backend have so many seconds for a graph, within the block."""
    token = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(token)


def bounded(work: Callable[[], T]) -> T:
    """What ``work`` returns; ``TimeoutError`` once it has taken what is allowed, never by default.

    The exception comes between two lines of Python: a library that computes for long within one
    call is not stopped before it returns. This is no ``with`` block: it might come within
    contextlib's own lines, which pass it on.
    """
    seconds = _allowed.get()
    if seconds is None:
        return work()

    class LateError(BaseException):
        """Of this call alone, and no ``Exception``, which a library may take for its own."""

    former = sys.unraisablehook

    def quiet(lost: sys.UnraisableHookArgs, /) -> None:
        # Nothing of the user's went wrong where it met a finaliser or a callback of the garbage
        # collector's, and it is sent again.
        if lost.exc_type is not LateError:
            former(lost)

    sys.unraisablehook = quiet
    try:
        return _watched(work, seconds, LateError)
    except LateError:
        message = f"It was not compiled after {seconds:g} s."
        raise TimeoutError(message) from None
    finally:
        # Another thread's, put above this one meanwhile, leads here for as long as it stays.
        if sys.unraisablehook is quiet:
            sys.unraisablehook = former


def _watched(work: Callable[[], T], seconds: float, late: type[BaseException]) -> T:
    """What ``work`` returns; ``late`` is raised in it, or at its end, after so many seconds."""
    # Plain locks are let go of at once. An exception within the methods of an Event, which are
    # Python, would leave it locked for ever; a thread waits for one while it starts another.
    begun, over = threading.Lock(), threading.Lock()
    begun.acquire()
    over.acquire()
    thread = ctypes.c_ulong(threading.get_ident())

    def watch() -> None:
        begun.acquire()
        wait = seconds
        while not over.acquire(timeout=wait):
            ctypes.pythonapi.PyThreadState_SetAsyncExc(thread, ctypes.py_object(late))
            wait = _AGAIN

    def end() -> None:
        for each in (over, begun):
            if each.locked():
                each.release()
        watcher.join()
        # What was sent and has not come is raised here, where Python next looks for it. Taken
        # back, it would leave CPython 3.11 looking for it for ever, and doing nothing else as
        # soon as a profiler or a debugger is on.
        for _ in range(_LOOKS):
            pass

    watcher = threading.Thread(target=watch, daemon=True, name="dynamo-ext-patience")
    try:
        watcher.start()
        begun.release()
        return work()
    finally:
        try:
            end()
        except BaseException:
            # It came at the end, or an interrupt did, or what was sent to a call around this.
            end()
            raise
