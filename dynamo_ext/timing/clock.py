"""One fair reading of the time that a call takes."""

import contextlib
import gc
import itertools
import time
from collections.abc import Callable, Iterator

MIN_SAMPLE_SECONDS = 0.01
"""Seconds that one sample should last: shorter calls are timed several at a time."""

MAX_SAMPLE_SECONDS = 0.1
"""Seconds that a sample of several calls may last."""

MAX_CALLS = 2_000
"""Calls of one sample at the most."""

MAX_WAIT_SECONDS = 0.05
"""Seconds, at the most, that are waited for threads to go to sleep."""

_NAP = 0.005
"""Seconds: the system may add up what other threads use only every 4 ms."""

_BUSY = 0.2
"""Share of a core that the process uses while threads of it still spin."""


def wait_for_idle_threads() -> None:
    """Wait until no thread of this process spins any more.

    Parallel loops leave their threads waiting busily for more work: libgomp's (eager, Inductor,
    OpenVINO) for 8 ms on two cores, and the candidate timed next would have that core less.
    """
    for _ in range(round(MAX_WAIT_SECONDS / _NAP)):
        used = time.process_time()
        time.sleep(_NAP)
        if time.process_time() - used < _BUSY * _NAP:
            return


def nothing() -> None:
    """Wait for no device."""


def seconds_per_call(
    call: Callable[[], object], calls: int, wait: Callable[[], object] = nothing
) -> float:
    """Wall seconds of one call, averaged over ``calls`` within one reading of the clock.

    ``wait`` waits for the device; it is called before both readings.
    """
    repeat = itertools.repeat(None, calls)
    clock = time.perf_counter_ns
    wait()
    started = clock()
    for _ in repeat:
        call()
    wait()
    return (clock() - started) / calls * 1e-9


def device_barrier() -> Callable[[], object]:
    """What waits for every CUDA device in use."""
    import torch

    in_use = torch.cuda.is_available() and torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.cuda.synchronize if in_use else nothing


@contextlib.contextmanager
def gc_disabled() -> Iterator[None]:
    """Keep the garbage collector from running inside a sample; what is young is freed before."""
    # Not what is old: in a large process that takes seconds, and a graph is raced several times.
    gc.collect(1)
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
