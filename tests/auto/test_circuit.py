"""Several graphs that run one after another: which assignment of backends stays."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

from dynamo_ext.auto import circuit
from dynamo_ext.auto.circuit import Circuits

BASE = 0.0005


class Clock:
    """A clock that forms move on, so that no other program's turn can change what comes out."""

    now = 0.0

    @classmethod
    def perf_counter(cls):
        return cls.now


def wait(seconds):
    Clock.now += seconds


class Graph:
    """A member whose forms take a known time; ``beside`` is added where the one before differs."""

    last = ""

    def __init__(self, winner, seconds, beside=0.0):
        self.trial = None
        self.waited = 0
        self.winner = winner
        self.seconds = seconds
        self.beside = beside
        self.settled = None
        self.confirmation = None
        self.ran = []

    def form(self, name):
        name = name if name in self.seconds else "eager"

        def run(x):
            strange = name not in {Graph.last, "eager"}
            wait(self.seconds[name] + (self.beside if strange else 0.0))
            Graph.last = name
            self.ran.append(name)
            return (x,)

        return run

    def settle(self, name="", confirmation=None):
        self.settled = name or self.winner
        self.confirmation = confirmation


def call(circuits, member):
    if member.settled is not None:
        return member.form(member.settled)(1)
    return circuits.call(member, (1,))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(Graph, "last", "")
    monkeypatch.setattr(circuit, "time", Clock)


def one_of_each(beside=0.0):
    first = Graph("a", {"eager": 3 * BASE, "a": BASE, "b": 1.3 * BASE}, beside)
    second = Graph("b", {"eager": 3 * BASE, "a": 1.3 * BASE, "b": BASE}, beside)
    return first, second


def run(members, times=80):
    circuits = Circuits()
    for _ in range(times):
        for member in members:
            call(circuits, member)


def test_a_mix_that_is_fastest_stays():
    members = one_of_each()
    run(members)
    assert [member.settled for member in members] == ["a", "b"]
    found = members[0].confirmation
    assert found is members[1].confirmation
    assert (found.graphs, found.kept, found.rounds) == (2, "mix", circuit.ROUNDS)
    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals.keys() == {"eager", "a", "b"}
    assert rivals["eager"].speedup == pytest.approx(3)
    assert rivals["eager"].low == pytest.approx(3)


def test_engines_that_get_in_each_others_way_give_place_to_one():
    members = one_of_each(beside=2 * BASE)
    run(members)
    kept = members[0].confirmation.kept
    assert kept in {"a", "b"}
    assert [member.settled for member in members] == [kept, kept]


def test_eager_may_be_the_best_company():
    first = Graph("a", {"eager": 1.1 * BASE, "a": BASE}, beside=4 * BASE)
    second = Graph("b", {"eager": 1.1 * BASE, "b": BASE}, beside=4 * BASE)
    third = Graph("c", {"eager": 1.1 * BASE, "c": BASE}, beside=4 * BASE)
    run([first, second, third])
    assert first.confirmation.kept == "eager"
    assert {member.settled for member in (first, second, third)} == {"eager"}


def test_one_backend_for_all_needs_no_confirmation():
    members = [Graph("a", {"eager": BASE, "a": BASE / 2}) for _ in range(3)]
    run(members, times=2)
    assert [member.settled for member in members] == ["a"] * 3
    assert members[0].confirmation is None


def test_a_graph_that_is_called_alone_settles_at_once():
    circuits = Circuits()
    alone, (first, second) = Graph("a", {"eager": BASE, "a": BASE / 2}), one_of_each()
    for _ in range(80):
        call(circuits, first)
        for _ in range(3):
            call(circuits, alone)
        call(circuits, second)
    assert alone.settled == "a"
    assert alone.confirmation is None
    assert first.confirmation.graphs == 2


def test_calls_in_no_order_settle_in_the_end(monkeypatch):
    monkeypatch.setattr(circuit, "PATIENCE", 10)
    monkeypatch.setattr(circuit, "BROKEN", 3)
    circuits = Circuits()
    members = [Graph(name, {"eager": BASE, name: BASE / 2}) for name in "abcde"]
    order = torch.Generator().manual_seed(0)
    for number in torch.randint(5, (100,), generator=order).tolist():
        call(circuits, members[number])
    assert all(member.settled is not None for member in members)


def test_a_circuit_that_breaks_off_keeps_the_mix(monkeypatch):
    monkeypatch.setattr(circuit, "BROKEN", 3)
    circuits = Circuits()
    members = one_of_each()
    for _ in range(2):
        for member in members:
            call(circuits, member)
    assert members[0].trial is not None
    for _ in range(6):
        call(circuits, members[0])
    assert [member.settled for member in members] == ["a", "b"]
    assert members[0].confirmation is None


def test_another_thread_gets_the_winners_and_counts_for_nothing():
    circuits = Circuits()
    members = one_of_each()
    for _ in range(2):
        for member in members:
            call(circuits, member)
    members[0].ran.clear()
    thread = threading.Thread(target=lambda: [call(circuits, members[0]) for _ in range(5)])
    thread.start()
    thread.join()
    assert members[0].ran == ["a"] * 5
    assert members[0].settled is None


def test_what_is_dropped_is_not_held():
    circuits = Circuits()
    member = Graph("a", {"eager": BASE, "a": BASE / 2})
    call(circuits, member)
    gone = weakref.ref(member)
    del member
    gc.collect()
    assert gone() is None
