"""Tuned schedules timed together: one stays where it makes the whole partition faster.

A search times a function by itself, over and over, with all it reads in the cache. Between a
partition's other functions that need not hold. So the partition is built by rule and with what was
found, and they take turns; then each function changes over, the longest first, as long as there is
time.
"""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends.tvm_database import key_of, trace_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from dynamo_ext.backends.tvm_database import Database
    from dynamo_ext.backends.tvm_session import Program

FEWEST_ROUNDS, MOST_ROUNDS = 7, 25

SAMPLE_SECONDS = 0.01
"""How long a reading of the clock lasts at least; shorter partitions run several times in it."""

RACE_SECONDS = 2.0
"""After which a race ends that has had its fewest rounds."""

CLEAR = 0.75
"""Share of the rounds that a challenger has to win, beside the median."""


@dataclass(frozen=True)
class Choice:
    """A function with two schedules to choose from.

    Attributes
    ----------
    function
        A PrimFunc without a schedule.
    rule, tuned
        The schedule by rule, and the best one that a search found.
    rule_seconds, tuned_seconds
        What each took by itself.
    """

    function: Any
    rule: Any
    tuned: Any
    rule_seconds: float
    tuned_seconds: float

    @property
    def differs(self) -> bool:
        """Whether there is anything to choose."""
        return bool(trace_of(self.rule) != trace_of(self.tuned))


def best_build(
    program: Program,
    choices: Sequence[Choice],
    otherwise: Callable[[Any], Any],
    database: Database,
    deadline: float,
) -> Any:
    """Build a partition with those of the tuned schedules that help it, and settle the others.

    Parameters
    ----------
    program
        The partition.
    choices
        The functions that were searched for, the longest first.
    otherwise
        Makes the schedule of any other function.
    database
        Which schedule stays goes on record there.
    deadline
        By the monotonic clock: no function changes over after it. All tuned schedules at once are
        always tried against all rules.

    Returns
    -------
    tvm.relax.VirtualMachine
        The fastest build found.
    """
    undecided = {key_of(choice.function): choice for choice in choices if choice.differs}
    if not undecided:
        return program.built(otherwise)

    def build(tuned: frozenset[str]) -> Any:
        def make(function: Any) -> Any:
            key = key_of(function)
            choice = undecided.get(key)
            if choice is None:
                return otherwise(function)
            return choice.tuned if key in tuned else choice.rule

        return program.built(make)

    chosen: frozenset[str] = frozenset()
    holder = build(chosen)
    inputs = program.inputs()
    every = frozenset(undecided)
    # Of one function, changing over once more would be the first build again.
    for change in (every, *(frozenset({key}) for key in undecided if len(undecided) > 1)):
        if change != every and time.monotonic() > deadline:
            break
        challenger = build(chosen ^ change)
        if faster(challenger["main"], holder["main"], inputs):
            chosen, holder = chosen ^ change, challenger
    for key, choice in undecided.items():
        stays, seconds = choice.rule, choice.rule_seconds
        if key in chosen:
            stays, seconds = choice.tuned, choice.tuned_seconds
        database.add(choice.function, stays, seconds, settled=True)
    return holder


def faster(
    challenger: Callable[..., Any], holder: Callable[..., Any], inputs: Sequence[Any]
) -> bool:
    """Whether a challenger beats the holder in most rounds of a race, in which they take turns."""
    runners = (challenger, holder)
    once = max(_seconds(run, inputs, 1) for run in (*runners, *runners))
    calls = max(1, round(SAMPLE_SECONDS / max(once, 1e-9)))
    ratios: list[float] = []
    end = time.monotonic() + RACE_SECONDS
    while len(ratios) < FEWEST_ROUNDS or (len(ratios) < MOST_ROUNDS and time.monotonic() < end):
        first = len(ratios) % 2
        taken = [0.0, 0.0]
        for place in (first, 1 - first):
            taken[place] = _seconds(runners[place], inputs, calls)
        ratios.append(taken[0] / taken[1])
    won = sum(ratio < 1 for ratio in ratios)
    return statistics.median(ratios) < 1 and won >= CLEAR * len(ratios)


def _seconds(run: Callable[..., Any], inputs: Sequence[Any], calls: int) -> float:
    started = time.perf_counter()
    for _ in range(calls):
        run(*inputs)
    return (time.perf_counter() - started) / calls
