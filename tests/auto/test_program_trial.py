"""Graphs timed together in the user's own calls: which assignment of backends stays."""

from __future__ import annotations

import gc
import threading
import weakref

import pytest
import torch

from dynamo_ext.auto import program_trial, turns
from dynamo_ext.auto.program_trial import ProgramTrials
from tests.auto.timed_graphs import BASE, Graph, one_of_each, wait
from tests.timing import fake_clock

LEAD_IN_SECONDS = turns.LEAD_IN_SECONDS
SAMPLE_SECONDS = turns.SAMPLE_SECONDS


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(Graph, "last", "")
    monkeypatch.setattr(program_trial.clock, "device_barrier", lambda: program_trial.clock.nothing)
    return fake_clock.install(monkeypatch, tick=0)


def call(trials, member):
    if member.settled is not None:
        return member.variant(member.settled)(1)
    return trials.call(member, (1,))


def run(members, times=150, between=lambda: None, after=lambda: None):
    trials = ProgramTrials()
    for _ in range(times):
        for member in members:
            call(trials, member)
            between()
        after()
    return trials


def graphs(number):
    return [Graph("a", {"eager": BASE, "a": BASE / 2}) for _ in range(number)]


@pytest.mark.parametrize("number", [1, 2, 3, 20, 100])
def test_graphs_that_are_called_one_after_another_are_confirmed_together(number):
    members = graphs(number)
    run(members, times=40)
    assert {member.confirmation for member in members} == {members[0].confirmation}
    assert members[0].confirmation.graphs == number


def test_a_mix_that_is_fastest_stays():
    members = one_of_each()
    run(members)
    assert [member.settled for member in members] == ["a", "b"]
    found = members[0].confirmation
    assert (found.graphs, found.kept, found.rounds) == (2, "mix", turns.MAX_ROUNDS)
    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals.keys() == {"eager", "a", "b"}
    assert rivals["eager"].speedup == pytest.approx(3)
    assert rivals["eager"].low == pytest.approx(3)
    assert rivals["a"].speedup == pytest.approx(1.05)


def test_who_is_clearly_behind_is_not_tried_any_more():
    members = one_of_each()
    run(members)
    ran = members[0].ran
    # Each time is two rounds: in the first one the threads of the one before may be awake.
    assert ran.count("eager") == 2 * 2
    assert ran.count("b") == 2 * turns.MAX_ROUNDS


def test_engines_that_get_in_each_others_way_give_place_to_one():
    members = one_of_each(beside=2 * BASE)
    run(members)
    kept = members[0].confirmation.kept
    assert kept in {"a", "b"}
    assert [member.settled for member in members] == [kept, kept]


def test_eager_may_be_the_best_company():
    members = [
        Graph(name, {"eager": 1.1 * BASE, name: BASE}, beside=4 * BASE) for name in ("a", "b", "c")
    ]
    run(members)
    assert members[0].confirmation.kept == "eager"
    assert {member.settled for member in members} == {"eager"}


def test_one_backend_for_all_is_confirmed_against_eager():
    members = graphs(3)
    run(members)
    found = members[0].confirmation
    assert (found.kept, [rival.name for rival in found.rivals]) == ("mix", ["eager"])
    assert found.rounds == 2


def test_what_an_engine_costs_the_code_between_the_graphs_counts():
    def slowed():
        # As threads that spin on would.
        wait(4 * BASE if Graph.last == "a" else 0)

    members = [Graph("a", {"eager": 2 * BASE, "a": BASE}) for _ in range(2)]
    run(members, between=slowed)
    assert members[0].confirmation.kept == "eager"


def test_what_comes_between_two_rounds_does_not_count():
    members = graphs(2)
    run(members, after=lambda: wait(100 if Graph.last == "a" else 0))
    assert members[0].confirmation.kept == "mix"


@pytest.mark.parametrize("trains", [False, True])
def test_threads_that_eager_leaves_spinning_slow_no_other_variant(fake, monkeypatch, trains):
    monkeypatch.setattr(turns, "LEAD_IN_SECONDS", LEAD_IN_SECONDS)
    monkeypatch.setattr(turns, "SAMPLE_SECONDS", SAMPLE_SECONDS)

    class Spinning(Graph):
        def variant(self, name):
            run = super().variant(name)

            def spun(x):
                if name != "eager" and fake.perf_counter() < fake.spins_until:
                    wait(4 * BASE)
                result = run(x)
                if name == "eager":
                    # As libgomp's do on two cores.
                    fake.spins_until = fake.perf_counter() + 0.008
                return result

            return spun

    member = Spinning("a", {"eager": 2 * BASE, "a": BASE}, trains=trains)
    run([member], times=1000)
    assert (member.settled, member.confirmation.kept) == ("a", "mix")
    assert {r.name: r.speedup for r in member.confirmation.rivals}["eager"] == pytest.approx(2)


@pytest.mark.parametrize(("trains", "kept"), [(False, "mix"), (True, "eager")])
def test_a_round_that_trains_goes_on_to_the_next_one(trains, kept):
    def backward():
        wait(9 * BASE if Graph.last == "a" else 0)

    member = Graph("a", {"eager": 2 * BASE, "a": BASE}, trains=trains)
    run([member], after=backward)
    assert member.confirmation.kept == kept


def test_rounds_that_take_long_are_few():
    member = Graph("a", {"eager": 1.05, "a": 1.0})
    run([member], times=40)
    assert member.confirmation.rounds == 6
    # One to warm up, and no other for threads that would be asleep long before its end.
    assert member.ran.count("eager") == 7


def test_an_error_ends_a_round_that_does_not_count():
    members = one_of_each()
    trials = run(members, times=program_trial.MIN_CALLS + 1)
    assert trials.trial is not None
    with pytest.raises(TypeError):
        trials.call(members[0], ())
    wait(100)
    for _ in range(150):
        for member in members:
            call(trials, member)
    found = members[0].confirmation
    assert {rival.name: rival.speedup for rival in found.rivals}["eager"] == pytest.approx(3)


def test_each_thread_has_trials_of_its_own():
    members = graphs(1)
    trials = run(members, times=program_trial.MIN_CALLS)
    seen = []
    thread = threading.Thread(target=lambda: seen.append((trials.trial, trials.unsettled_calls)))
    thread.start()
    thread.join()
    assert seen == [(None, 0)]
    assert trials.trial is not None


def test_a_graph_that_is_called_several_times_in_a_round_is_one_of_them():
    one, two = graphs(2)
    run([one, one, one, two])
    assert one.confirmation is two.confirmation
    assert one.confirmation.graphs == 2


def test_a_round_within_a_round_is_confirmed_by_itself():
    one, two, other = graphs(3)
    run([one, two] * 8 + [other])
    assert one.confirmation.graphs == 2
    assert other.confirmation.graphs == 1


def test_graphs_that_all_stay_with_eager_by_far_are_settled_at_once():
    members = [Graph("eager", {"eager": BASE, "a": 2 * BASE}) for _ in range(2)]
    run(members, times=program_trial.MIN_CALLS)
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


@pytest.mark.parametrize(("company", "stays"), [(1.5, "a"), (1.0, "eager")])
def test_where_a_backend_was_near_what_is_between_the_graphs_decides(company, stays):
    race = {"eager": BASE, "a": 1.1 * BASE}
    truth = {"eager": company * BASE, "a": 1.1 * BASE}
    members = [InCompany("eager", race, truth) for _ in range(2)]
    run(members)
    assert [member.settled for member in members] == [stays] * 2
    assert members[0].confirmation.rivals[0].name == "a"


def test_calls_in_no_order_settle_in_the_end(monkeypatch):
    monkeypatch.setattr(program_trial, "MAX_WAIT", 10)
    trials = ProgramTrials()
    members = [Graph(name, {"eager": BASE, name: BASE / 2}) for name in "abcde"]
    order = torch.Generator().manual_seed(0)
    for number in torch.randint(5, (1000,), generator=order).tolist():
        call(trials, members[number])
    assert all(member.settled is not None for member in members)


def test_a_trial_ends_whose_anchor_is_not_called_any_more():
    first, second = one_of_each()
    trials = run([first, second], times=program_trial.MIN_CALLS)
    third = Graph("b", {"eager": 3 * BASE, "b": BASE})
    while first.settled is None:
        call(trials, second)
    for _ in range(150):
        for member in (second, third):
            call(trials, member)
    assert (first.settled, first.confirmation) == ("a", None)
    assert second.confirmation is third.confirmation
    assert second.confirmation.graphs == 2


def test_calls_count_until_the_graphs_are_settled():
    members = graphs(2)
    trials = run(members, times=3)
    assert trials.unsettled_calls == 6
    for _ in range(150):
        for member in members:
            call(trials, member)
    settled = trials.unsettled_calls
    assert settled < 100
    for member in members:
        call(trials, member)
    assert trials.unsettled_calls == settled


@pytest.mark.usefixtures("older_objects_frozen")
def test_what_is_dropped_is_not_held():
    members = graphs(2)
    trials = run(members, times=1)
    gone = weakref.ref(members[0])
    del members
    gc.collect()
    assert gone() is None
    assert trials.unsettled_calls == 2


def test_calls_while_they_are_paused_do_not_count():
    trials = ProgramTrials()
    trials.paused = True
    [member] = graphs(1)
    for _ in range(50):
        call(trials, member)
    assert member.settled is None
    assert (trials.trial, trials.unsettled_calls) == (None, 0)
    assert set(member.ran) == {"a"}
