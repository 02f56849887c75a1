"""Whether the turns of a cell's loop run captured or in Python: some run each way, and are timed.

Each turn runs once whichever way it takes, so that a trial has no effect twice and costs no work.
What came of it is kept on disk: a kernel that runs the same cells again computes the same bits.
"""

from __future__ import annotations

import contextlib
import dis
import functools
import hashlib
import json
import time
import types
from collections.abc import Callable, Iterator, Mapping
from statistics import median
from typing import Any

import torch

import dynamo_ext
from dynamo_ext.backends.disk_cache import Row, Table, device_model
from dynamo_ext.capture.events.capture_disabled import of_run
from dynamo_ext.capture.listen import run_log
from dynamo_ext.formatting import seconds
from dynamo_ext.records.capture import LoopTurns
from dynamo_ext.records.comparison import BUSY_CORES
from dynamo_ext.records.report import Fallback
from dynamo_ext.timing import first_run

_BEFORE, _EACH = 20, 6
"""Turns before those that are timed, and how many of these run each way."""

_FEWEST = 16
"""Turns of a run whose trial goes on in the next run of the cell, where this one was too short."""

_LEFT = -1
"""In place of a loop's line, where what is left to Python is kept."""

_STARTED = time.time()
"""Outcomes that were kept before this moment come from an earlier kernel."""

_MARGIN = 0.95
"""Share of Python's time at which being captured begins to pay."""


class Trials:
    """The trials of the loops of a cell on one backend in one run, and the outcomes of former ones.

    ``compiler`` tells by its ``repr`` what else than the text an outcome depends on, beside how
    many numbers the ``parameters`` of its models have. Trials of the run ``before`` that came to no
    outcome go on.
    """

    def __init__(
        self, source: str, compiler: Any, parameters: int = 0, before: Trials | None = None
    ) -> None:
        self._source = source
        machine = device_model(torch.device("cpu")), torch.get_num_threads()
        versions = str(torch.__version__), dynamo_ext.__version__
        self.place = json.dumps([repr(compiler), parameters, *machine, *versions])
        self._trials: dict[int, TurnTrial] = {}
        self._new: list[Row] = []
        self._running: TurnTrial | None = None
        if before is not None and before.place == self.place:
            for line, trial in before._trials.items():  # noqa: SLF001
                if trial.goes_on(functools.partial(self.keep, line)):
                    self._trials[line] = trial

    def of_loop(self, line: int) -> TurnTrial:
        """The trial of the loop at a line, which may be over."""
        trial = self._trials.get(line)
        if trial is None:
            trial = self._trials[line] = TurnTrial(line, functools.partial(self.keep, line))
            self.recall(trial, line)
        return trial

    @contextlib.contextmanager
    def during(self, trial: TurnTrial) -> Iterator[None]:
        """A block in which a loop of the cell runs."""
        outer, self._running = self._running, trial
        try:
            yield
        finally:
            self._running = outer

    def is_in_long_loop(self) -> bool:
        """Whether a loop of the cell runs whose own trial tells how it runs."""
        return self._running is not None and self._running.is_long

    def recall(self, trial: TurnTrial, line: int) -> None:
        """Give a trial the outcome that is kept of it, if there is one."""
        for _, _, value, kept in Outcomes().rows("key = ? AND place = ?", *self._key(line)):
            with contextlib.suppress(ValueError, TypeError):
                trial.decide(*json.loads(str(value)))
                trial.is_remembered = float(str(kept)) < _STARTED

    @functools.cached_property
    def left(self) -> Mapping[str, Any]:
        """What earlier runs left to Python, as ``left_before.to_remember`` gives it."""
        for _, _, value, _ in Outcomes().rows("key = ? AND place = ?", *self._key(_LEFT)):
            with contextlib.suppress(ValueError, TypeError):
                return dict(*json.loads(str(value)))
        return {}

    def keep_left(self, left: Mapping[str, Any]) -> None:
        """Have what a run left to Python written where it ends, if earlier ones did not."""
        if left and left.keys() - self.left.keys():
            self.keep(_LEFT, {**self.left, **left})

    def _key(self, line: int) -> tuple[str, str]:
        return hashlib.sha256(f"{line}\n{self._source}".encode()).hexdigest(), self.place

    def keep(self, line: int, *outcome: object) -> None:
        """Have what a trial came to written where the run ends."""
        self._new.append((*self._key(line), json.dumps(outcome), time.time()))

    def save(self, busy_cores: float) -> None:
        """Write the outcomes of the run to disk, unless other programs kept so many cores busy."""
        if self._new and busy_cores < BUSY_CORES:
            Outcomes().keep(self._new)


class Outcomes(Table):
    """What is kept, by a loop's cell and line, and by place: what ``TurnTrial.decide`` takes."""

    name = "turn_trials"


class TurnTrial:
    """The trial of one loop; ``is_python`` is its outcome, ``None`` before it.

    An outcome that ``is_remembered`` was found by another kernel, whose seconds tell nothing of
    this one's. ``keep`` gets what ``decide`` takes, once it is known.
    """

    def __init__(
        self,
        line: int,
        keep: Callable[..., object] = lambda *_: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.is_python: bool | None = None
        self.is_remembered = False
        self._keep = keep
        self._outcome = (0.0, 0.0)
        self._line = line
        self._clock = clock
        self._turns = self._earlier = 0
        self._plain = 0.0
        self._captured: list[float] = []
        self._python: list[float] = []

    def run(self, captured: Callable[[], Any], python: Callable[[], Any]) -> Any:
        """Run a turn one of two ways; its value."""
        self._turns += 1
        if self.is_python is not None:
            return self.whole(python) if self.is_python else captured()
        if self._turns <= _BEFORE or first_run.current().used_up():
            return captured()
        samples = self._next_samples()
        turn = python if samples is self._python else captured
        worked, started = other_work(), self._clock()
        value = turn()
        took = self._clock() - started
        # A turn in which something was compiled, checked or called again says nothing of others.
        if other_work() == worked:
            samples.append(took)
            self._end_if_known()
        return value

    def _next_samples(self) -> list[float]:
        """Those that the next turn is one of: each way in turn."""
        return self._python if len(self._python) < len(self._captured) else self._captured

    def _end_if_known(self) -> None:
        if len(self._python) == _EACH:
            self.decide(median(self._captured), median(self._python))
            self._keep(*self._outcome)

    @property
    def is_long(self) -> bool:
        """Whether it has had so many turns that they are timed."""
        return self._turns > _BEFORE

    def goes_on(self, keep: Callable[..., object]) -> bool:
        """Whether the next run goes on with it, and keeps its outcome.

        What this run counted is an earlier run's then.
        """
        if self.is_python is not None or self._turns - self._earlier < _FEWEST:
            return False
        self._earlier, self._keep = self._turns, keep
        return True

    def whole(self, python: Callable[[], Any]) -> Any:
        """Run turns in Python: one of them, or all; the value."""
        started = self._clock()
        value = python()
        self._plain += self._clock() - started
        return value

    def decide(self, captured: float, python: float) -> None:
        """End it with the seconds of a turn each way."""
        self._outcome = captured, python
        self.is_python = captured > _MARGIN * python

    def as_record(self) -> LoopTurns:
        """What was found, and how many turns this run has made captured."""
        captured = 0 if self.is_python or self.is_remembered else self._turns - self._earlier
        return LoopTurns(self._line, captured, *self._outcome, self._plain, self.is_remembered)

    def as_fallback(self) -> Fallback:
        """What a report says where the loop's turns run in Python."""
        captured, python = map(seconds, self._outcome)
        why = (
            f"The turns of the {self.as_record().place} run in Python: captured, one took "
            f"{captured}, and {python} in Python"
        )
        return of_run(why, _REMEDY, harmless=True)


_REMEDY = "--capture all has them captured all the same."


def other_work() -> float:
    """Seconds so far that no turn took itself."""
    run = run_log.active_run()
    return first_run.current().spent + (run.paired_seconds if run is not None else 0.0)


def carries_gradients(code: types.CodeType, namespace: Mapping[str, Any]) -> bool:
    """Whether a turn reads a tensor of an earlier one that has a backward pass to come."""
    held = (namespace.get(name) for name in _read_first(code))
    return any(isinstance(each, torch.Tensor) and each.grad_fn is not None for each in held)


@functools.lru_cache(256)
def _read_first(code: types.CodeType) -> frozenset[str]:
    """Names that the turn reads before it binds them; each turn asks."""
    read, bound = set(), set()
    for step in dis.get_instructions(code):
        if step.opname == "STORE_GLOBAL":
            bound.add(step.argval)
        elif step.opname == "LOAD_GLOBAL" and step.argval not in bound:
            read.add(step.argval)
    return frozenset(read)
