"""How long may be spent on compiling a graph where several backends are tried.

A single backend has no time limit; the user may interrupt it. Where several are
tried, nothing further of a graph is compiled once its seconds are used up. What compiles is not
stopped: Python has no safe way to.
"""

import contextlib
import time
from collections.abc import Iterator
from contextvars import ContextVar

REMEDY = "Give compile_budget more seconds, or leave out a backend that takes long to compile."

_allowed: ContextVar[float | None] = ContextVar("dynamo_ext_patience", default=None)
_begun: ContextVar[float | None] = ContextVar("dynamo_ext_patience_begun", default=None)


@contextlib.contextmanager
def allowing(seconds: float) -> Iterator[None]:
    """Let every graph that is compiled within the block have so many seconds."""
    token = _allowed.set(seconds)
    try:
        yield
    finally:
        _allowed.reset(token)


@contextlib.contextmanager
def one_graph() -> Iterator[None]:
    """Count the seconds of a graph from here on; of a block within another, from that one's start.

    ``auto`` gives a graph to several backends within one block: they share its seconds.
    """
    token = _begun.set(_begun.get() or time.perf_counter())
    try:
        yield
    finally:
        _begun.reset(token)


def used_up() -> str:
    """Why nothing further of the graph is to be compiled; empty while there is time."""
    seconds, begun = _allowed.get(), _begun.get()
    if seconds is None or begun is None or time.perf_counter() - begun < seconds:
        return ""
    return f"It was not compiled: the {seconds:g} s for compiling the graph were used up."
