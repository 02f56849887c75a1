"""Calls that are timed in turn, each in a process of its own.

In one process the threads of two engines spin beside each other, and which of them is slowed down
is chance. Here only one process works at a time.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import random
from collections.abc import Callable, Iterator, Sequence
from multiprocessing.connection import Connection
from unittest import mock

from dynamo_ext.timing import clock

_LEAD_IN = 2
"""Calls of a turn that do not count: they wake threads, and bring data to the caches."""

_COUNTED = 8
"""Calls of a turn that count."""

_END_SECONDS = 10.0

_KEEP = dict.fromkeys(("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_"), str(1 << 30))
"""For glibc, which else gives freed memory back in every call, or in none, by where it lies."""


def in_turn(makers: Sequence[Callable[[], Callable[[], object]]], rounds: int) -> list[list[float]]:
    """Seconds of a call in each round, of each of the calls that are made in other processes.

    Parameters
    ----------
    makers
        Each is sent to a process of its own, and makes a call that has been compiled.
    rounds
        How many turns each call has. The order of the calls is drawn for each round.
    """
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(_process(make)) for make in makers]
        for end in ends:
            # It is ready.
            end.recv()
        found: list[list[float]] = [[] for _ in ends]
        order = list(zip(ends, found, strict=True))
        draw = random.Random(0)  # noqa: S311 - an order, no secret
        for _ in range(rounds):
            draw.shuffle(order)
            for end, seconds in order:
                end.send(True)  # noqa: FBT003 - go on
                seconds.append(end.recv())
    return found


@contextlib.contextmanager
def _process(make: Callable[[], Callable[[], object]]) -> Iterator[Connection]:
    # Not a fork: of torch's threads, a forked process would have none.
    context = multiprocessing.get_context("spawn")
    mine, others = context.Pipe()
    process = context.Process(target=_take_turns, args=(make, others), daemon=True)
    with mock.patch.dict(os.environ, _KEEP):
        process.start()
    # Only the child holds its end of the pipe: reading then fails once the child has died.
    others.close()
    try:
        yield mine
    finally:
        with contextlib.suppress(OSError):
            mine.send(False)  # noqa: FBT003 - it is over
        process.join(_END_SECONDS)
        process.kill()


def _take_turns(make: Callable[[], Callable[[], object]], end: Connection) -> None:
    call = make()
    end.send(0.0)
    while end.recv():
        with clock.gc_disabled():
            for _ in range(_LEAD_IN):
                call()
            seconds = clock.seconds_per_call(call, _COUNTED)
        clock.wait_for_idle_threads()
        end.send(seconds)
