"""A remembered winner: used as long as it is right."""

from __future__ import annotations

import torch

from dynamo_ext.auto.known import Known
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.callables import CallableBackend
from dynamo_ext.backends.compilers import Compiler


def graph():
    made = torch.fx.Graph()
    made.output((made.call_function(torch.add, (made.placeholder("x"), 1)),))
    return torch.fx.GraphModule({}, made)


def known_of(function, **settings):
    journal = journals.Journal("g0")
    known = Known(graph(), journal, "one")
    forgotten = []
    known.then = lambda: forgotten.append(True)
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
