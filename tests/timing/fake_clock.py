"""A clock that only the code under test moves, so that other programs cannot change what comes out."""

from __future__ import annotations

from dynamo_ext.auto import autotuned_graph, graph_race, program_trial
from dynamo_ext.backends import compiler
from dynamo_ext.measure import operation_profiler
from dynamo_ext.timing import clock, first_run, race

USERS = (
    clock,
    race,
    autotuned_graph,
    compiler,
    graph_race,
    program_trial,
    first_run,
    operation_profiler,
)
"""The modules that measure."""


class FakeTime:
    """Stands for the module ``time``; code takes the time that it sleeps.

    Each reading takes ``tick`` seconds, so that no call takes no time at all. Threads of the
    process spin until ``spins_until``.
    """

    def __init__(self, tick):
        self.spins_until = 0.0
        self._tick = tick
        self._nanoseconds = 1_000_000_000

    def sleep(self, seconds):
        self._nanoseconds += round(seconds * 1e9)

    def perf_counter(self):
        return self.perf_counter_ns() / 1e9

    def perf_counter_ns(self):
        self.sleep(self._tick)
        return self._nanoseconds

    def process_time(self):
        return min(self._nanoseconds / 1e9, self.spins_until)


def install(monkeypatch, tick=0.001):
    """Have everything that measures read a clock of the test's own."""
    time = FakeTime(tick)
    for module in USERS:
        monkeypatch.setattr(module, "time", time)
    return time


class Stopped:
    """Goes on only where a test says so."""

    now = 1.0

    def __call__(self) -> float:
        return self.now


stopped = Stopped()


def seconds(given: float = 0.2) -> first_run.FirstRun:
    """Seconds of a first run, by the clock that stands still."""
    return first_run.FirstRun(given, clock=stopped)
