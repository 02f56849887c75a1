"""A remembered winner: used as long as it is right."""

from __future__ import annotations

import dataclasses

import torch

from dynamo_ext.auto.circuit import Circuits
from dynamo_ext.auto.known import Known
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.callables import CallableBackend
from dynamo_ext.backends.compilers import Compiler
from dynamo_ext.records import Confirmation, Contest, Contestant


def graph():
    made = torch.fx.Graph()
    made.output((made.call_function(torch.add, (made.placeholder("x"), 1)),))
    return torch.fx.GraphModule({}, made)


def row(name, seconds, outcome):
    return Contestant(name, outcome, seconds=seconds)


HELD = Contest(
    "one", (row("eager", 2.0, "slower"), row("one", 1.0, "won"), row("b", 1.5, "slower"))
)


def known_of(function, **settings):
    journal = journals.Journal("g0")
    known = Known(graph(), journal, HELD, Circuits())
    forgotten = []
    known.forget = lambda: forgotten.append(True)
    compiler = Compiler(CallableBackend(function), {"verify": True, **settings})
    return known, compiler, forgotten, journal


def test_a_winner_that_is_right_stays():
    known, compiler, forgotten, _ = known_of(lambda made, _: made.forward)
    assert known.compile(compiler, [torch.ones(3)])
    for _ in range(2):
        assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
    assert not forgotten


def test_a_winner_that_does_not_compile_any_more_is_none():
    def fails(made, inputs):
        raise ValueError

    known, compiler, _, _ = known_of(fails)
    assert not known.compile(compiler, [torch.ones(3)])


def test_a_winner_that_is_wrong_now_is_forgotten_and_eagers_result_given():
    known, compiler, forgotten, journal = known_of(lambda made, _: lambda x: (x + 2,))
    assert known.compile(compiler, [torch.ones(3)])
    assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
    assert forgotten == [True]
    assert any(fallback.stage == "verify" for fallback in journal.fallbacks.values())
    known(torch.ones(3))
    assert forgotten == [True]


def test_it_is_timed_in_company_once():
    known, compiler, _, journal = known_of(lambda made, _: made.forward)
    found = []
    known.remember = found.append
    assert known.compile(compiler, [torch.ones(3)])
    for _ in range(200):
        known(torch.ones(3))
    assert known.laps is None
    [kept] = found
    assert kept.confirmation is not None
    assert not kept.remembered
    assert journal.contest.confirmation is kept.confirmation


def test_what_was_timed_in_company_before_is_not_timed_again():
    held = dataclasses.replace(HELD, confirmation=Confirmation(1, "mix", 15))
    circuits = Circuits()
    known = Known(graph(), journals.Journal("g0"), held, circuits)
    assert known.compile(
        Compiler(CallableBackend(lambda made, _: made.forward), {"verify": True}), [torch.ones(3)]
    )
    for _ in range(20):
        known(torch.ones(3))
    assert circuits.on_trial == 0


def test_one_that_loses_in_company_gives_place_to_eager():
    known, compiler, _, journal = known_of(lambda made, _: made.forward)
    found = []
    known.remember = found.append
    assert known.compile(compiler, [torch.ones(3)])
    known(torch.ones(3))
    assert set(known.seconds) == {"eager", "one"}
    known.settle("eager", Confirmation(1, "eager", 15))
    assert [contest.winner for contest in found] == ["eager"]
    assert journal.contest.winner == "eager"
    assert not journal.partitions
    assert torch.equal(known(torch.ones(3))[0], torch.full((3,), 2.0))
