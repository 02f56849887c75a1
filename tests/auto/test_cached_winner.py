"""A remembered winner: used as long as it is right."""

from __future__ import annotations

import dataclasses
import threading

import torch

from dynamo_ext.auto.autotuned_graph import CachedWinner
from dynamo_ext.auto.program_trial import ProgramTrials
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace, OnlineTrial
from dynamo_ext.records.graph import Partition


def graph():
    made = torch.fx.Graph()
    made.output((made.call_function(torch.add, (made.placeholder("x"), 1)),))
    return torch.fx.GraphModule({}, made)


def row(name, seconds, outcome):
    return GraphCandidateResult(name, outcome, seconds=seconds)


HELD = GraphRace(
    "one", (row("eager", 2.0, "slower"), row("one", 1.0, "won"), row("b", 1.5, "slower"))
)


def known_of(function, held=HELD, **settings):
    journal = journals.Journal("g0")
    known = CachedWinner(graph(), journal, held, ProgramTrials())
    forgotten = []
    known.forget = lambda: forgotten.append(True)
    compiler = Compiler(CallableBackend(function), {"verify": True, **settings})
    return known, compiler, forgotten, journal


def test_a_winner_that_is_right_stays():
    known, compiler, forgotten, _ = known_of(lambda made, _: made.forward)
    assert known.compile({"one": compiler}, [torch.ones(3)])
    for _ in range(2):
        assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
    assert not forgotten


def test_a_winner_that_does_not_compile_any_more_is_none():
    def fails(made, inputs):
        raise ValueError

    known, compiler, _, _ = known_of(fails)
    assert not known.compile({"one": compiler}, [torch.ones(3)])


def test_a_winner_that_is_wrong_now_is_forgotten_and_eagers_result_given():
    known, compiler, forgotten, journal = known_of(lambda made, _: lambda x: (x + 2,))
    assert known.compile({"one": compiler}, [torch.ones(3)])
    assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
    assert forgotten == [True]
    assert any(fallback.stage == "verify" for fallback in journal.fallbacks.values())
    known(torch.ones(3))
    assert forgotten == [True]


def test_a_winner_that_misses_the_users_bound_now_is_forgotten():
    made = torch.fx.Graph()
    weight = made.get_attr("weight")
    made.output((made.call_function(torch.mm, (made.placeholder("x"), weight)),))
    x = torch.randn(8, 8)
    product = torch.fx.GraphModule({"weight": torch.randn(8, 8)}, made)
    for text, misses in (("rel<=1e-7", True), ("rel<=0.04", False)):
        bound, journal, forgotten = AccuracyBound.parse(text), journals.Journal("g0"), []
        known = CachedWinner(product, journal, HELD, ProgramTrials())
        compiler = registry.compiler("eager:bf16").within(bound, strict=True)
        known.forget = lambda found=forgotten: found.append(True)
        with torch.no_grad():
            assert known.compile({"one": compiler}, [x])
            assert torch.equal(known(x)[0], product(x)[0]) is misses
        assert forgotten == [True] * misses
        said = [each.message for each in journal.fallbacks.values()]
        assert any("rel<=1e-07 was asked for" in each for each in said) is misses


def test_it_is_timed_in_company_once():
    known, compiler, _, journal = known_of(lambda made, _: made.forward)
    found = []
    known.remember = found.append
    assert known.compile({"one": compiler}, [torch.ones(3)])
    for _ in range(200):
        known(torch.ones(3))
    [kept] = found
    assert kept.confirmation is not None
    assert not kept.remembered
    assert journal.contest.confirmation is kept.confirmation


def test_what_was_timed_in_company_before_is_not_timed_again():
    held = dataclasses.replace(HELD, confirmation=OnlineTrial(1, "mix", 15))
    trials = ProgramTrials()
    known = CachedWinner(graph(), journals.Journal("g0"), held, trials)
    compiler = Compiler(CallableBackend(lambda made, _: made.forward), {"verify": True})
    assert known.compile({"one": compiler}, [torch.ones(3)])
    for _ in range(20):
        known(torch.ones(3))
    assert trials.unsettled_calls == 0


def test_one_that_loses_in_company_gives_place_to_eager():
    known, compiler, _, journal = known_of(lambda made, _: made.forward)
    found = []
    known.remember = found.append
    assert known.compile({"one": compiler}, [torch.ones(3)])
    known(torch.ones(3))
    assert set(known.seconds) == {"eager", "one"}
    known.settle("eager", OnlineTrial(1, "eager", 15))
    assert [contest.winner for contest in found] == ["eager"]
    assert journal.contest.winner == "eager"
    assert not journal.partitions
    assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))


def test_a_winner_that_is_confirmed_keeps_what_is_known_of_its_parts():
    known, compiler, _, journal = known_of(lambda made, _: made.forward)
    assert known.compile({"one": compiler}, [torch.ones(3)])
    known(torch.ones(3))
    journal.partitions["p0"] = Partition("p0", "one", 1)
    known.settle("", OnlineTrial(1, "mix", 15))
    assert list(journal.partitions) == ["p0"]
    assert journal.contest.confirmation is not None


def test_a_first_call_ends_well_while_another_thread_settles_the_graph():
    entered, others = threading.Event(), []

    def lowered(x):
        if not entered.is_set():
            entered.set()
            others.append(threading.Thread(target=known, args=(x,)))
            others[0].start()
            others[0].join()
            assert set(known.switch.compiled) == {"eager"}
        return (x + 1,)

    held = dataclasses.replace(HELD, confirmation=OnlineTrial(1, "mix", 15))
    known, compiler, _, _ = known_of(lambda *_: lowered, held, verify=False)
    assert known.compile({"one": compiler}, [torch.ones(3)])
    assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
