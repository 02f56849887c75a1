"""Exceptions of the user's that arrive while a compiler is at work, and are not its failures.

Python calls a signal handler between two instructions of whatever is running, and a trace function
likewise. What such a function raises (a time limit) passes through the frame that it happened to
interrupt, which may be torch's, an engine's or ours, and must not be taken for that one's error.

While something compiles, the handlers are listened to: what they raise is known whatever is made of
it on the way, for torch and the engines turn errors into others, or drop them. At a call, which is
to pay nothing, it is known by what Python passes to such functions: a signal's number and the
interrupted frame, or that frame and the name of an event.
"""

from __future__ import annotations

import functools
import itertools
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from traceback import walk_stack, walk_tb
from types import BuiltinFunctionType, CodeType, FrameType, TracebackType
from typing import Any, Self


class Listening:
    """A block in which nothing that a signal handler raises is lost: at its end it is raised.

    Handlers run in the main thread; elsewhere, and within such a block, this does nothing.
    """

    _SIGNALS = tuple(signal.valid_signals())
    _active: Listening | None = None

    def __init__(self) -> None:
        self._handlers: dict[int, tuple[Any, Any]] = {}
        self.raised: tuple[Exception, tuple[Any, ...]] | None = None

    def __enter__(self) -> Self:
        here = threading.current_thread() is threading.main_thread()
        if Listening._active is not None or not here:
            return self
        try:
            Listening._active = self
            for number in self._SIGNALS:
                handler = signal.getsignal(number)
                # Not Python's own, by which an interrupt is a KeyboardInterrupt.
                if callable(handler) and not isinstance(handler, BuiltinFunctionType):
                    ours = functools.partial(self._hear, handler)
                    self._handlers[number] = ours, handler
                    signal.signal(number, ours)
        except BaseException:
            self._leave()
            raise
        return self

    def _hear(self, handler: Callable[[int, Any], object], number: int, frame: Any) -> None:
        try:
            handler(number, frame)
        except Exception as error:
            # Dynamo writes into the message of what passes through it.
            self.raised = error, error.args
            raise

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if Listening._active is not self:
            return
        try:
            self._leave()
        except BaseException:
            # A signal came meanwhile.
            self._leave()
            raise
        found = self._found()
        if found is not None and not isinstance(error, (KeyboardInterrupt, SystemExit)):
            _raise(found)

    def _leave(self) -> None:
        for number, (ours, handler) in list(self._handlers.items()):
            # One that was set meanwhile stays.
            if signal.getsignal(number) is ours:
                signal.signal(number, handler)
            del self._handlers[number]
        Listening._active = None

    def _found(self) -> Exception | None:
        if self.raised is None:
            return None
        error, arguments = self.raised
        error.args = arguments
        return error

    @classmethod
    def found(cls) -> Exception | None:
        """What a handler has raised since the block around this began."""
        here = threading.current_thread() is threading.main_thread()
        return cls._active._found() if cls._active is not None and here else None  # noqa: SLF001


def interruption(error: BaseException) -> BaseException | None:
    """What a signal handler or a trace function raised, where ``error`` is that or came of it.

    The caller of this is what caught ``error``.
    """
    return _interruption(error, sys._getframe(1))  # noqa: SLF001 - CPython's own name for it


@contextmanager
def interrupts_later() -> Iterator[list[int]]:
    """Have an interrupt act after the block, in which it is in the list that this gives.

    For engines that make errors of their own of a ``KeyboardInterrupt``.
    """
    here = threading.current_thread() is threading.main_thread()
    came: list[int] = []
    former = signal.signal(signal.SIGINT, lambda number, _: came.append(number)) if here else None
    try:
        yield came
    finally:
        if here:
            signal.signal(signal.SIGINT, former or signal.SIG_DFL)
        if came:
            signal.raise_signal(signal.SIGINT)


def raise_at(line: int, code: CodeType, error: BaseException) -> None:
    """Have the next call of ``code`` in this thread raise where it comes to ``line``, or ends.

    No trace function is set then: Python takes one away that raises.
    """

    def within(frame: FrameType, event: str, _argument: object) -> Any:
        if event == "return" or (event == "line" and frame.f_lineno == line):
            raise error.with_traceback(None)
        return within

    sys.settrace(lambda frame, *_: within if frame.f_code is code else None)


def failures() -> type[Exception]:
    """For ``except failures():``, which catches any ``Exception`` but for interruptions.

    What the exception came of, where that is an ``interruption``, is raised in its place.
    """
    error = sys.exception()
    if isinstance(error, Exception):
        found = _interruption(error, sys._getframe(1))  # noqa: SLF001
        if found is not None:
            _raise(found)
    return Exception


def _raise(error: BaseException) -> None:
    context = error.__context__
    try:
        raise error
    finally:
        # Restore the context that it was raised with.
        error.__context__ = context


class suppressed(suppress):  # noqa: N801 - as the one of contextlib
    """``contextlib.suppress``, but for what a signal handler or a trace function raised."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if error is not None and _interruption(error, sys._getframe(1)) is not None:  # noqa: SLF001
            return False
        return bool(super().__exit__(kind, error, traceback))


def _interruption(error: BaseException, catcher: FrameType) -> BaseException | None:
    if (heard := Listening.found()) is not None:
        return heard
    around = {frame for frame, _ in walk_stack(catcher)}
    found, seen, waiting = None, set(), [error]
    while waiting:
        each = waiting.pop()
        traceback = each.__traceback__
        # One that was caught farther out is over: the user handles it, and calls us meanwhile.
        if id(each) in seen or traceback is None:
            continue
        if each is not error and traceback.tb_frame in around:
            continue
        seen.add(id(each))
        if _passed_a_handler(traceback):
            found = each
        waiting += [e for e in (each.__context__, each.__cause__) if e is not None]
    return found


def _passed_a_handler(traceback: TracebackType | None) -> bool:
    passed: set[FrameType] = set()
    for frame, _ in walk_tb(traceback):
        if any(map(_is_call_of_pythons, *_pairs(frame), itertools.repeat(passed))):
            return True
        passed.add(frame)
    return False


def _pairs(frame: FrameType) -> tuple[list[Any], list[Any]]:
    """A function's arguments, each beside the one after it."""
    code, names = frame.f_code, frame.f_locals
    count = code.co_argcount
    values = [names.get(name) for name in code.co_varnames[:count]]
    if code.co_flags & 0x04:  # CO_VARARGS
        rest = names.get(code.co_varnames[count + code.co_kwonlyargcount])
        # The function may have bound its name to something else.
        values += rest if type(rest) is tuple else ()
    return values[:-1], values[1:]


def _is_call_of_pythons(first: Any, second: Any, passed: set[FrameType]) -> bool:
    """Whether two arguments are a signal and a frame it interrupted, or that and an event."""
    # Not by `isinstance`: the `__class__` of a user's object may be the user's code.
    one, other = type(first), type(second)
    if other is FrameType:
        return issubclass(one, int) and second in passed
    return one is FrameType and issubclass(other, str) and first in passed
