"""Graphs timed together in the user's own calls: which assignment of backends stays."""

from __future__ import annotations

import threading

import pytest

from dynamo_ext.auto import online_trials
from dynamo_ext.auto.online_trials import OnlineTrials
from tests.auto.timed_graphs import BASE, Graph, one_of_each, wait
from tests.timing import fake_clock

LEAD_IN_SECONDS = online_trials.LEAD_IN_SECONDS
SAMPLE_SECONDS = online_trials.SAMPLE_SECONDS


@pytest.fixture(autouse=True)
def fake(monkeypatch):
    monkeypatch.setattr(Graph, "last", "")
    return fake_clock.install(monkeypatch, tick=0)


def call(member):
    return (member.variant(member.settled) if member.trials is None else laps_of(member))(1)


def laps_of(member):
    return lambda x: member.trials.call(member, (x,))


def begun(*members):
    made = OnlineTrials(members)
    for member in members:
        member.trials = made
    return members


def run(members, times=150, between=lambda: None, after=lambda: None):
    begun(*members)
    for _ in range(times):
        for member in members:
            call(member)
            between()
        after()


def test_a_mix_that_is_fastest_stays():
    members = one_of_each()
    run(members)
    assert [member.settled for member in members] == ["a", "b"]
    found = members[0].confirmation
    assert found is members[1].confirmation
    assert (found.graphs, found.kept, found.rounds) == (2, "mix", online_trials.MAX_ROUNDS)
    rivals = {rival.name: rival for rival in found.rivals}
    assert rivals.keys() == {"eager", "a", "b"}
    assert rivals["eager"].speedup == pytest.approx(3)
    assert rivals["eager"].low == pytest.approx(3)
    assert rivals["a"].speedup == pytest.approx(1.05)


def test_who_is_clearly_behind_is_not_tried_any_more():
    members = one_of_each()
    run(members)
    ran = members[0].ran
    # Each time is two cycles: in the first one the threads of the one before may be awake.
    assert ran.count("eager") == 2 * online_trials.MIN_ROUNDS
    assert ran.count("b") == 2 * online_trials.MAX_ROUNDS


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


def test_one_backend_for_all_is_confirmed_against_eager():
    members = [Graph("a", {"eager": BASE, "a": BASE / 2}) for _ in range(3)]
    run(members)
    found = members[0].confirmation
    assert (found.kept, [rival.name for rival in found.rivals]) == ("mix", ["eager"])
    assert found.rounds == online_trials.MIN_ROUNDS


def test_what_an_engine_costs_the_code_between_the_graphs_counts():
    def slowed():
        # As threads that spin on would.
        wait(4 * BASE if Graph.last == "a" else 0)

    members = [Graph("a", {"eager": 2 * BASE, "a": BASE}) for _ in range(2)]
    run(members, between=slowed)
    assert members[0].confirmation.kept == "eager"


@pytest.mark.parametrize("trains", [False, True])
def test_threads_that_eager_leaves_spinning_slow_no_other_variant(fake, monkeypatch, trains):
    monkeypatch.setattr(online_trials, "LEAD_IN_SECONDS", LEAD_IN_SECONDS)
    monkeypatch.setattr(online_trials, "SAMPLE_SECONDS", SAMPLE_SECONDS)

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
def test_a_lap_that_trains_goes_on_to_the_next_one(trains, kept):
    def backward():
        wait(9 * BASE if Graph.last == "a" else 0)

    member = Graph("a", {"eager": 2 * BASE, "a": BASE}, trains=trains)
    run([member], after=backward)
    assert member.confirmation.kept == kept


def test_laps_that_take_long_are_few():
    member = Graph("a", {"eager": 1.05, "a": 1.0})
    run([member], times=30)
    assert member.confirmation.rounds == 5
    # One to warm up, and no other for threads that would be asleep long before its end.
    assert member.ran.count("eager") == 6


def test_a_call_out_of_turn_ends_a_lap_that_does_not_count():
    members = begun(*one_of_each())
    for _ in range(200):
        call(members[0])
        wait(100)
        for member in members:
            call(member)
    found = members[0].confirmation
    assert found.kept == "mix"
    assert {rival.name: rival.speedup for rival in found.rivals}["eager"] == pytest.approx(3)


def test_an_error_ends_a_lap_that_does_not_count():
    first, second = begun(*one_of_each())
    with pytest.raises(TypeError):
        first.trials.call(first, ())
    for _ in range(150):
        call(first)
        call(second)
    assert first.confirmation.kept == "mix"


def test_graphs_that_go_in_no_cycle_any_more_wait_again_and_the_others_are_settled():
    first, second = begun(*one_of_each())
    calls = 0
    while first.trials is not None:
        call(first)
        calls += 1
    assert calls == online_trials.MAX_OUT_OF_ORDER + 2
    assert first.settled is None
    assert first.waited == online_trials.FAILED_CYCLE_COST
    assert second.settled == "b"


def test_another_thread_gets_the_winners_and_counts_for_nothing():
    first, _ = begun(*one_of_each())
    thread = threading.Thread(target=lambda: [call(first) for _ in range(5)])
    thread.start()
    thread.join()
    assert first.ran == ["a"] * 5
    assert first.settled is None
