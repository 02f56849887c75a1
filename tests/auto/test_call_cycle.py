"""Graphs that run one after another: which of them are a cycle."""

from __future__ import annotations

import gc
import weakref

import pytest
import torch

from dynamo_ext.auto import call_cycle, online_trials
from dynamo_ext.auto.call_cycle import CallCycles
from tests.auto.timed_graphs import BASE, Graph, one_of_each, wait
from tests.timing import fake_clock


def call(cycles, member):
    if member.settled is not None:
        return member.variant(member.settled)(1)
    return cycles.call(member, (1,))


@pytest.fixture(autouse=True)
def _fresh(monkeypatch):
    monkeypatch.setattr(Graph, "last", "")
    fake_clock.install(monkeypatch, tick=0)


def run(members, times=150):
    cycles = CallCycles()
    for _ in range(times):
        for member in members:
            call(cycles, member)
    return cycles


def graphs(number):
    return [Graph("a", {"eager": BASE, "a": BASE / 2}) for _ in range(number)]


@pytest.mark.parametrize("number", [1, 2, 3, 20, call_cycle.MAX_CALLS])
def test_graphs_that_are_called_in_the_same_order_are_confirmed_together(number):
    members = graphs(number)
    run(members, times=40)
    assert {member.confirmation for member in members} == {members[0].confirmation}
    assert members[0].confirmation.graphs == number


def test_a_graph_that_is_called_several_times_in_a_lap_is_one_of_them():
    one, two = graphs(2)
    run([one, one, one, two])
    assert one.confirmation is two.confirmation
    assert one.confirmation.graphs == 2


def test_a_lap_within_a_lap_is_confirmed_by_itself():
    one, two, other = graphs(3)
    run([one, two] * 8 + [other])
    assert one.confirmation.graphs == 2
    assert other.confirmation.graphs == 1


def test_graphs_that_all_stay_with_eager_by_far_are_settled_at_once():
    members = [Graph("eager", {"eager": BASE, "a": 2 * BASE}) for _ in range(2)]
    run(members, times=call_cycle.MIN_REPEATED)
    assert [member.settled for member in members] == ["eager"] * 2
    assert members[0].confirmation is None


class InCompany(Graph):
    """A graph whose variants take other times between the others than they took in the race."""

    def __init__(self, winner, seconds, truth):
        super().__init__(winner, seconds)
        self.truth = truth

    def variant(self, name):
        def run(x):
            wait(self.truth[name])
            return (x,)

        return run


def test_a_backend_that_only_a_tiny_graph_has_is_not_tried_for_all():
    large = Graph("eager", {"eager": 100 * BASE, "a": 105 * BASE})
    tiny = Graph("eager", {"eager": BASE, "b": BASE})
    run([large, tiny])
    assert {rival.name for rival in large.confirmation.rivals} == {"a"}


@pytest.mark.parametrize(("company", "stays"), [(1.5, "a"), (1.0, "eager")])
def test_where_a_backend_was_near_what_is_between_the_graphs_decides(company, stays):
    race = {"eager": BASE, "a": 1.1 * BASE}
    truth = {"eager": company * BASE, "a": 1.1 * BASE}
    members = [InCompany("eager", race, truth) for _ in range(2)]
    run(members)
    assert [member.settled for member in members] == [stays] * 2
    assert members[0].confirmation.rivals[0].name == "a"


def test_calls_in_no_order_settle_in_the_end(monkeypatch):
    monkeypatch.setattr(call_cycle, "MAX_WAIT", 10)
    monkeypatch.setattr(online_trials, "MAX_OUT_OF_ORDER", 3)
    cycles = CallCycles()
    members = [Graph(name, {"eager": BASE, name: BASE / 2}) for name in "abcde"]
    order = torch.Generator().manual_seed(0)
    for number in torch.randint(5, (150,), generator=order).tolist():
        call(cycles, members[number])
    assert all(member.settled is not None for member in members)


def test_graphs_that_are_compiled_again_are_in_the_next_cycle():
    cycles = CallCycles()
    first, second = one_of_each()
    for _ in range(call_cycle.MIN_REPEATED):
        for member in (first, second):
            call(cycles, member)
    assert first.trials is not None
    third = Graph("b", {"eager": 3 * BASE, "b": BASE})
    for _ in range(100):
        for member in (first, third):
            call(cycles, member)
    assert second.settled == "b"
    assert second.confirmation is None
    assert first.confirmation is third.confirmation
    assert first.confirmation.graphs == 2


def test_calls_count_until_the_graphs_are_settled():
    members = graphs(2)
    cycles = run(members, times=3)
    assert cycles.unsettled_calls == 6
    for _ in range(150):
        for member in members:
            call(cycles, member)
    settled = cycles.unsettled_calls
    assert settled < 100
    for member in members:
        call(cycles, member)
    assert cycles.unsettled_calls == settled


@pytest.mark.usefixtures("older_objects_frozen")
def test_what_is_dropped_is_not_held():
    cycles = CallCycles()
    [member] = graphs(1)
    call(cycles, member)
    gone = weakref.ref(member)
    del member
    gc.collect()
    assert gone() is None


def test_calls_while_they_are_paused_do_not_count():
    cycles = CallCycles()
    cycles.paused = True
    [member] = graphs(1)
    for _ in range(50):
        call(cycles, member)
    assert member.settled is None
    assert (member.waited, member.trials, cycles.unsettled_calls) == (0, None, 0)
    assert set(member.ran) == {"a"}
