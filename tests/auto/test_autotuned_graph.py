"""One graph under ``auto``, from its race to the variant that stays."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.auto import graph_race
from dynamo_ext.auto.autotuned_graph import AutotunedGraph
from dynamo_ext.auto.program_trial import ProgramTrials
from dynamo_ext.backends import journal as journals
from dynamo_ext.timing import clock
from tests.timing import fake_clock

SLOW = 0.003


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    fake_clock.install(monkeypatch)


def slowly(x, weight):
    clock.time.sleep(SLOW)
    return x * weight


def racer_of(**variants):
    """A graph that multiplies, slowly in eager, and a racer for it whose variants are given."""
    graph = torch.fx.Graph()
    inputs = [graph.placeholder(name) for name in ("x", "weight")]
    graph.output((graph.call_function(slowly, tuple(inputs)),))
    made = AutotunedGraph(
        torch.fx.GraphModule({}, graph), journals.Journal("g0"), 0.1, ProgramTrials()
    )
    made.compile({name: lambda *_, f=variant: f for name, variant in variants.items()}, [])
    return made


def test_a_graph_that_trains_is_confirmed_and_trained_as_before():
    racer = racer_of(fast=lambda x, weight: (x * weight,))
    weight = torch.ones(3, requires_grad=True)
    x = torch.tensor([1.0, 2.0, 3.0])
    for _ in range(60):
        [product] = racer(x, weight)
        product.sum().backward()
        assert torch.equal(weight.grad, x)
        weight.grad = None
    assert racer.trains
    assert racer.contest.winner == "fast"
    assert racer.contest.confirmation.kept == "mix"
    assert set(racer.switch.compiled) == {"eager"}


def test_a_race_leaves_the_graph_that_the_inputs_came_from_to_the_user():
    """One input of GPyTorch's graphs is computed from another: a gradient of both went through it."""
    racer = racer_of(fast=lambda x, weight: (x * weight,))
    weight = torch.ones(3, requires_grad=True)
    x = weight.exp()
    [product] = racer(x, weight)
    product.sum().backward()
    assert torch.allclose(weight.grad, 2 * torch.ones(3).exp())
    assert x.requires_grad
    assert not x.is_leaf


def test_a_race_leaves_a_backward_pass_that_is_still_to_come():
    """A batch norm's statistics are put back between calls: the cell's own forward had saved them."""

    def counting(x, weight):
        x.add_(1)
        return (x * weight,)

    racer = racer_of(fast=counting)
    weight, x = torch.ones(3, requires_grad=True), torch.ones(3)
    before = (weight * x).sum()
    racer.race((x, weight), 0.1)
    assert torch.equal(x, torch.ones(3))
    before.backward()
    assert torch.equal(weight.grad, x)


def test_one_that_seems_alone_keeps_the_winner_and_eager_alone():
    def other(x, weight):
        slowly(x, weight)
        return (x * weight,)

    racer = racer_of(fast=lambda x, weight: (x * weight,), other=other)
    x = torch.ones(3)
    with torch.no_grad():
        racer(x, x)
        assert set(racer.seconds) >= {"eager", "fast"}
        racer(x, x)
        assert set(racer.seconds) == set(racer.switch.compiled) == {"eager", "fast"}


def test_one_that_loses_in_company_gives_place_to_eager():
    company = []

    def fast(x, weight):
        # As an engine does whose threads find the cores taken.
        for _ in company:
            slowly(x, weight)
        return (x * weight,)

    racer = racer_of(fast=fast)
    found = []
    racer.remember = found.append
    x = torch.ones(3)
    with torch.no_grad():
        racer(x, x)
        company.extend(range(3))
        for _ in range(60):
            assert torch.equal(racer(x, x)[0], x)
    assert [contest.winner for contest in found] == ["fast", "eager"]
    assert racer.contest.confirmation.kept == "eager"
    assert {row.backend: row.outcome for row in racer.contest.contestants}["fast"] == "slower"


def test_a_call_that_began_before_another_thread_settled_the_graph_runs_what_stays():
    racer = racer_of(fast=lambda x, weight: (x * weight,))
    x = torch.ones(3)
    with torch.no_grad():
        racer(x, x)
        racer.settle()
        assert not racer.seconds.keys() - {"eager"}
        racer.keep_only({"eager", racer.winner})
        assert torch.equal(racer.variant("fast")(x, x)[0], x)


def test_of_two_threads_that_race_a_graph_the_first_to_end_decides(monkeypatch):
    racer = racer_of(fast=lambda x, weight: (x * weight,))
    x, race, raced = torch.ones(3), graph_race.run_race, []

    def twice(*args):
        held = race(*args)
        if not raced:
            raced.append(held)
            with torch.no_grad():
                racer(x, x)
            racer.settle()
        return held

    monkeypatch.setattr(graph_race, "run_race", twice)
    with torch.no_grad():
        assert torch.equal(racer(x, x)[0], x)
    assert racer.contest is not raced[0]


def raced(racer, monkeypatch, winner):
    """After a race that ``winner`` has won."""
    monkeypatch.setattr(graph_race.multi_backend, "winner_of", lambda _: winner)
    racer._trials.paused = True
    with torch.no_grad():
        racer(torch.ones(3), torch.ones(3))
    assert racer.winner == winner
    return racer


def quickly(x, weight):
    return (x * weight,)


def test_one_that_is_kept_in_float32_runs_its_fastest_variant_there(monkeypatch):
    def less_quickly(x, weight):
        clock.time.sleep(SLOW / 2)
        return (x * weight,)

    variants = {"a:bf16": quickly, "b:int8": quickly, "c:bf16": quickly, "d": less_quickly}
    racer = raced(racer_of(**variants), monkeypatch, "a:bf16")
    found = []
    racer.remember = found.append
    racer.keep_full()
    assert racer.winner == "d"
    assert set(racer.seconds) == {"eager", "d"}
    assert found == [racer.contest]
    assert {row.backend: row.outcome for row in racer.contest.contestants}["a:bf16"] == "wrong"


def test_one_that_is_slower_than_eager_in_float32_goes_back_to_eager(monkeypatch):
    def slower(x, weight):
        clock.time.sleep(2 * SLOW)
        return (x * weight,)

    racer = raced(racer_of(**{"a:bf16": quickly, "d": slower}), monkeypatch, "a:bf16")
    racer.keep_full()
    assert racer.winner == "eager"


def test_one_that_was_settled_runs_eager_and_keeps_that_to_itself(monkeypatch):
    racer = raced(racer_of(**{"a:bf16": lambda x, _: (x * 9,)}), monkeypatch, "a:bf16")
    racer.settle()
    found = []
    racer.remember = found.append
    racer.keep_full()
    assert racer(torch.ones(3), torch.ones(3))[0].tolist() == [1, 1, 1]
    assert racer.winner == "eager"
    assert not found


def test_no_lower_precision_is_left_but_the_winners(monkeypatch):
    variants = {"a:bf16": quickly, "b:int8": quickly, "d": quickly}
    racer = raced(racer_of(**variants), monkeypatch, "a:bf16")
    racer.let_go_of_lower()
    assert set(racer.seconds) == {"eager", "a:bf16", "d"}
