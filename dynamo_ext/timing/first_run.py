"""How many seconds may go into tracing, compiling, checking and racing before code runs eagerly.

What has begun is finished: Python has no safe way to stop a compiler. What has not begun when the
seconds are used up is eager's until new ones are given: a cell's next run has some.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from weakref import WeakKeyDictionary

REMEDY = (
    "Run the cell again: each run goes on with new seconds. --first-run SECONDS gives more of "
    "them, --first-run none lifts the limit."
)


class FirstRun:
    """Seconds of work, counted where ``working`` says so; ``remedy`` is for what they ran out for.

    With ``late_checks`` what was compiled in time is checked later. ``before`` is that of the run
    before of the same code, and ``ran`` what a run took beside this work. ``waiting`` has the
    seconds in eager of what waits for its turn. ``last`` has the seconds and the name of the block
    of work during which the time ran out, or of the block within it that took longest.
    """

    def __init__(
        self,
        seconds: float = math.inf,
        remedy: str = REMEDY,
        clock: Callable[[], float] | None = None,
        *,
        late_checks: bool = False,
        before: FirstRun | None = None,
    ) -> None:
        self.seconds = seconds
        self.remedy = remedy
        self.late_checks = late_checks
        self._clock = clock or time.perf_counter
        self._spent = 0.0
        self._since: float | None = None
        self._begun, self.ran = self._clock(), 0.0
        self.waiting: WeakKeyDictionary[object, float] = WeakKeyDictionary()
        self.last = self._inner = 0.0, ""
        self._blocks, self._why = 0, ""
        self._took: dict[object, float] = {}
        self._loading = 0.0
        self.before = before
        if before is not None:
            before.before = None

    @contextlib.contextmanager
    def working(self, name: str = "", kind: object = None) -> Iterator[None]:
        """Count the seconds of the block; those of a block within another count once.

        ``kind`` serves to say how long later blocks take (`usual`).
        """
        started, outermost, loading = self._clock(), self._since is None, self._loading
        if outermost:
            self._since = started
        try:
            yield
        finally:
            took = self._clock() - started
            self._took[kind] = took - (self._loading - loading)
            if outermost:
                self._since = None
                inner, self._inner = self._inner, (0.0, "")
                self.count(took, inner[1] if 2 * inner[0] > took else name)
            elif name:
                self._inner = max(self._inner, (took, name))

    def count(self, took: float, name: str = "") -> None:
        """Count seconds of work that is done."""
        if self.left:
            self.last = took, name
        self._spent += took
        self._blocks += 1

    def loaded(self, seconds: float) -> None:
        """Note how much of the work is what only the first of its kind takes."""
        self._loading += seconds

    def loaded_before(self, seconds: float) -> None:
        """Count what loading torch's compiler and a backend took before the run: a user waits."""
        self._spent += seconds
        self._loading += seconds
        self._begun -= seconds

    def close(self) -> None:
        """Have nothing further begin."""
        self._spent = math.inf

    @property
    def spent(self) -> float:
        """Seconds of work so far."""
        return self._spent + (self._clock() - self._since if self._since is not None else 0.0)

    @property
    def running(self) -> float:
        """Seconds of the run so far that were no work."""
        return self._clock() - self._begun - self.spent

    @property
    def left(self) -> float:
        """Seconds that are not used up."""
        return max(self.seconds - self.spent, 0.0)

    def usual(self, kind: object) -> float:
        """Seconds that the next block of a ``kind`` is expected to take: as many as the last one.

        Where there was none, as many as the blocks so far on average.
        """
        average = (self._spent - self._loading) / max(self._blocks, 1)
        return self._took.get(kind, average)

    def used_up(self, expected: float = 0.0) -> str:
        """Why nothing further begins; empty while there is time.

        In the second half of the seconds nothing begins that is expected to take more of them than
        are left.
        """
        if self.spent >= self.seconds:
            used = f"the {self.seconds:g} s for the first run were used up{self.by()}"
            # In one wording for all, since reports count equal ones.
            self._why = self._why or f"It runs in eager in this run: {used}."
            return self._why
        if self.left < self.seconds / 2 and expected > self.left:
            return (
                f"It was not compiled: {self.spent:.3g} of the {self.seconds:g} s for the first "
                f"run were used up, and it would take about {expected:.2g} s."
            )
        return ""

    def by(self) -> str:
        """What used up the last of the seconds, to go on with in a sentence, if it has a name."""
        took, name = self.last if self._since is None else self._inner
        return f", {took:,.2f} s by `{name}`" if name else ""


_SECONDS = {"eager": 4.0, "aot_eager": 4.0, "auto": 40.0}
_OTHERS = 20.0


ENVIRONMENT = "DYNAMO_EXT_FIRST_RUN"
"""What has the seconds of cells that do not say otherwise, or ``none``."""


def usual_seconds(backend: str) -> float:
    """What a cell has on a backend unless it says otherwise."""
    return _SECONDS.get(backend.partition(":")[0], _OTHERS)


_UNLIMITED = FirstRun()
_current: ContextVar[FirstRun] = ContextVar("dynamo_ext_first_run")


def current() -> FirstRun:
    """The seconds that apply here; without end where no limit was set."""
    return _current.get(_UNLIMITED)


@contextlib.contextmanager
def within(budget: FirstRun) -> Iterator[None]:
    """Let the block have these seconds."""
    token = _current.set(budget)
    try:
        yield
    finally:
        budget.ran = budget.running
        _current.reset(token)
