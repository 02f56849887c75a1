"""Graphs whose variants take a known time, by the clock of ``tests.timing``."""

from __future__ import annotations

from dynamo_ext.auto import program_trial

BASE = 0.0005


def wait(seconds):
    program_trial.time.sleep(seconds)


class Graph:
    """A member whose variants take a known time; ``beside`` is added where the one before differs."""

    last = ""

    def __init__(self, winner, seconds, beside=0.0, *, trains=False):
        self.trains = trains
        self.winner = winner
        self.seconds = seconds
        self.beside = beside
        self.settled = None
        self.confirmation = None
        self.ran = []

    def variant(self, name):
        name = name if name in self.seconds else "eager"

        def run(x):
            strange = name not in {Graph.last, "eager"}
            wait(self.seconds[name] + (self.beside if strange else 0.0))
            Graph.last = name
            self.ran.append(name)
            return (x,)

        return run

    def keep_only(self, names):
        self.seconds = {name: self.seconds[name] for name in names}

    def settle(self, name="", confirmation=None):
        self.settled = name or self.winner
        self.confirmation = confirmation


def one_of_each(beside=0.0):
    first = Graph("a", {"eager": 3 * BASE, "a": BASE, "b": 1.1 * BASE}, beside)
    second = Graph("b", {"eager": 3 * BASE, "a": 1.1 * BASE, "b": BASE}, beside)
    return first, second
