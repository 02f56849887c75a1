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

_listener: ContextVar[Listener | None] = ContextVar("listener", default=None)
_announcer: ContextVar[Callable[[str], object] | None] = ContextVar("announcer", default=None)


@contextlib.contextmanager
def reporting_to(
    listener: Listener | None, announcer: Callable[[str], object] | None = None
) -> Iterator[None]:
    """Report every comparison and race within the block to ``listener``.

    ``announcer`` gets one sentence on how long a comparison takes, before it compiles anything.
    """
    tokens = _listener.set(listener), _announcer.set(announcer)
    try:
        yield
    finally:
        _listener.reset(tokens[0])
        _announcer.reset(tokens[1])


def announce(words: str) -> None:
    """Tell the announcer, if there is one."""
    if (announcer := _announcer.get()) is not None:
        announcer(words)


_USUAL = {
    "eager": 0.2, "aot_eager": 0.3, "ts": 0.35, "ofi": 0.55, "onnxrt": 1.0, "tvm": 1.0, "xla": 1.2,
    "lazy": 1.2, "openvino": 1.3, "onnx2tf": 1.5, "inductor": 2.0,
}  # fmt: skip
"""How long backends compile in relation to each other: medians over docs/models.md."""


class Board:
    """The candidates of one comparison or race, from waiting to timed.

    ``subject`` is the graph that they run, empty for the code as a whole. ``timing_seconds`` is
    how long timing them may take once all are compiled, ``later`` what comes after that.
    """

    def __init__(
        self,
        subject: str,
        names: Iterable[str],
        timing_seconds: float = 0.0,
        later: float = 0.0,
    ) -> None:
        self.timing_seconds = timing_seconds
        self._subject = subject
        self._standings = {name: Standing(name) for name in names}
        self._later = later
        self._taken: dict[str, float] = {}
        self._since = 0.0
        self._now = RaceProgress(subject, "plain")

    def begin(self, phase: Phase, name: str = "", state: State | None = None) -> None:
        """Say what is done from now on, and with which candidate."""
        if state is not None:
            self._since = time.perf_counter()
            self.put(name, state)
        self._now = RaceProgress(self._subject, phase, name)
        self.doing("")

    def doing(self, words: str) -> None:
        """Say what the backend itself says it does, of what was begun; nothing if ``words`` is."""
        done = self._now.phase in {"memory", "graphs"}
        left = self._later if done else self._seconds_left()
        self._tell(replace(self._now, left=left, doing=words))

    def end(self, name: str, reason: str = "", median: float = 0.0) -> None:
        """Say that a candidate's turn is over; with a ``reason``, that it takes no further part."""
        if not reason:
            self._taken[name] = time.perf_counter() - self._since
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

    def timing(
        self, step: RaceProgress, running: Sequence[TimedCallable], *, last: bool = True
    ) -> None:
        """Say how far a race of these is; after one that is not the ``last``, another comes."""
        self.timed(running)
        left = step.left if last and step.left is not None else self.timing_seconds
        self._tell(replace(step, subject=self._subject, left=left + self._later))

    def _tell(self, progress: RaceProgress) -> None:
        listener = _listener.get()
        if listener is not None:
            listener(replace(progress, standings=tuple(self._standings.values())))

    def _seconds_left(self) -> float | None:
        """What is left of compiling, by how long the others took, and the timing."""
        usual = sum(map(_usual, self._taken))
        if not usual:
            return None
        pace = sum(self._taken.values()) / usual
        waiting = [e for e in self._standings.values() if e.state not in {"ready", "out"}]
        left = pace * sum(_usual(each.name) for each in waiting)
        if any(each.name == self._now.candidate for each in waiting):
            spent = time.perf_counter() - self._since
            left -= min(spent, pace * _usual(self._now.candidate))
        return left + self.timing_seconds + self._later


def _usual(name: str) -> float:
    return _USUAL.get(name.partition(":")[0], 1.0)
