"""How far a comparison or a race is, and how long it may still take."""

import contextlib
import statistics
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

from dynamo_ext.records.progress import Phase, RaceProgress, Standing, State
from dynamo_ext.timing.race import TimedCallable

Listener = Callable[[RaceProgress], object]

Announcer = Callable[[str], object]
_listeners: ContextVar[tuple[Listener | None, Announcer | None]] = ContextVar(
    "listeners", default=(None, None)
)


@contextlib.contextmanager
def reporting_to(listener: Listener | None, announcer: Announcer | None = None) -> Iterator[None]:
    """Report every comparison and race within the block to ``listener``.

    ``announcer`` gets one sentence on how long a comparison takes, before it compiles anything.
    """
    token = _listeners.set((listener, announcer))
    try:
        yield
    finally:
        _listeners.reset(token)


def announce(words: str) -> None:
    """Tell the announcer, if there is one."""
    if announcer := _listeners.get()[1]:
        announcer(words)


class Board:
    """The candidates of one comparison or race, from waiting to timed.

    ``subject`` is the graph that they run, empty for the code as a whole. ``ends`` is when it is
    announced to end, by ``time.perf_counter``.
    """

    def __init__(self, subject: str, names: Iterable[str]) -> None:
        self.ends: float | None = None
        self._subject = subject
        self._standings = {name: Standing(name) for name in names}
        self._now = RaceProgress(subject, "plain")

    def begin(self, phase: Phase, name: str = "", state: State | None = None) -> None:
        """Say what is done from now on, and with which candidate."""
        if state is not None:
            self.put(name, state)
        self._now = RaceProgress(self._subject, phase, name)
        self.doing("")

    def doing(self, words: str) -> None:
        """Say what the backend itself says it does, of what was begun; nothing if ``words`` is."""
        self._tell(replace(self._now, doing=words))

    def end(self, name: str, reason: str = "", median: float = 0.0) -> None:
        """Say that a candidate's turn is over; with a ``reason``, that it takes no further part."""
        self.put(name, "out" if reason else "ready", reason=reason, median=median)

    def put(self, name: str, state: State, **facts: Any) -> None:
        """Note how far a candidate is, without reporting it."""
        self._standings[name] = Standing(name, state, **facts)

    def timed(self, running: Sequence[TimedCallable]) -> None:
        """Note the medians so far, until more is reported."""
        for each in running:
            known = self._standings.get(each.name, Standing(each.name))
            median = statistics.median(each.samples) if each.samples else 0.0
            state: State = "ready" if each.error is None else "out"
            self._standings[each.name] = replace(known, state=state, median=median)

    def timing(self, step: RaceProgress, running: Sequence[TimedCallable]) -> None:
        """Say how far a race of these is."""
        self.timed(running)
        self._tell(replace(step, subject=self._subject))

    def _tell(self, progress: RaceProgress) -> None:
        if self.ends is not None:
            progress = replace(progress, left=self.ends - time.perf_counter())
        if listener := _listeners.get()[0]:
            listener(replace(progress, standings=tuple(self._standings.values())))
