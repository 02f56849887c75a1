"""``auto`` on small code: who wins, who loses and why, what is remembered."""

from __future__ import annotations

import pytest
import torch

import dynamo_ext
from dynamo_ext.auto import backend as auto
from dynamo_ext.auto import graph_race, ranking, turns
from dynamo_ext.auto.cache import place_key
from dynamo_ext.backends import registry
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.backends.graph_key import graph_key
from dynamo_ext.errors import OptionError
from dynamo_ext.measure.multi_backend import MultiBackendGraph
from dynamo_ext.measure.progress import Board, reporting_to
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.timing import clock, first_run
from tests.auto.conftest import Company
from tests.timing import fake_clock

pytestmark = pytest.mark.usefixtures("races")


SLEEP = 0.004


@pytest.fixture(autouse=True)
def _clock(monkeypatch, request):
    if "real_clock" not in request.fixturenames:
        fake_clock.install(monkeypatch)


@pytest.fixture
def real_clock():
    """For races of real engines, on whose order nothing depends."""


def wait(seconds):
    clock.time.sleep(seconds)


def slow_eager(x):
    """Its plain variant waits; a compiled variant need not."""
    wait(SLEEP)
    return (x + 1,)


def switch_of(function, **variants):
    graph = torch.fx.GraphModule({}, _graph())
    return MultiBackendGraph(0, graph, {"eager": function, **variants})


def _graph():
    graph = torch.fx.Graph()
    graph.output((graph.call_function(torch.add, (graph.placeholder("x"), 1)),))
    return graph


def run_race(switch, *args):
    return graph_race.run_race(switch, args or (torch.ones(3),), 1.0)


def outcomes(held):
    return {row.backend: row.outcome for row in held.contestants}


def test_the_fastest_right_form_wins():
    told = []
    variants = {
        "fast": lambda x: (x + 1,),
        "faster_but_wrong": lambda x: (x + 2,),
        "slower": lambda x: (wait(3 * SLEEP), (x + 1,))[1],
    }
    board = Board("", ["eager", *variants])
    with reporting_to(told.append):
        held = graph_race.run_race(
            switch_of(slow_eager, **variants), (torch.ones(3),), 1.0, board=board
        )
        board.doing("")
    out = {each.name: each.reason for each in told[-1].standings if each.state == "out"}
    assert out.keys() == {"faster_but_wrong", "slower"}
    assert "Clearly slower after" in out["slower"]
    assert held.winner == "fast"
    assert outcomes(held) == {
        "eager": "slower",
        "fast": "won",
        "faster_but_wrong": "wrong",
        "slower": "slower",
    }
    won = next(row for row in held.contestants if row.backend == "fast")
    assert won.speedup > 2
    assert won.low > 1


def test_eager_stays_where_nothing_is_faster():
    held = run_race(switch_of(slow_eager, alike=slow_eager))
    assert held.winner == "eager"
    assert outcomes(held)["alike"] in {"same", "slower"}


def test_whoever_fails_has_lost():
    calls = []

    def fails(x):
        raise ValueError

    def fails_later(x):
        calls.append(1)
        return (x + 1,) if len(calls) <= 5 else fails(x)

    made = switch_of(slow_eager, fails=fails, fails_later=fails_later)
    made.errors["never_compiled"] = RuntimeError("no")
    held = run_race(made)
    others = dict.fromkeys(["fails", "fails_later", "never_compiled"], "failed")
    assert outcomes(held) == {"eager": "won", **others}


@pytest.mark.parametrize(
    ("bound", "winner", "reason"),
    [
        ("rel<=0.01", "near:bf16", ""),
        ("rel<=0.0001", "eager", "and rel<=0.0001 was asked for"),
        (None, "near:bf16", ""),
    ],
)
def test_a_lower_precision_wins_within_the_bound(bound, winner, reason):
    def near(x):
        return ((x + 1) * 1.001,)

    def far(x):
        return ((x + 1) * 1.2,)

    variants = {"near:bf16": near, "far:bf16": far}
    switch = switch_of(slow_eager, **variants)
    switch.precisions = dict.fromkeys(variants, "bf16")
    asked = AccuracyBound.parse(bound) if bound else None
    held = graph_race.run_race(switch, (torch.ones(3),), 1.0, asked)
    rows = {row.backend: row for row in held.contestants}
    assert held.winner == winner
    assert reason in rows["near:bf16"].reason
    assert rows["far:bf16"].outcome == "wrong"
    assert "bf16 may have 0.05" in rows["far:bf16"].reason


def test_a_bound_brings_precisions_into_the_race_and_is_part_of_the_key(real_clock, races):
    del real_clock
    model = torch.nn.Sequential(torch.nn.Linear(64, 64), torch.nn.GELU()).eval()
    x = torch.randn(8, 64)
    raced = {}
    for accuracy in ("", "cosine>=0.99", "cosine>=1"):
        options = {"accuracy": accuracy, "candidates": "onnxrt+ts", "budget": 0.1}
        compiled = dynamo_ext.optimize("auto", options=options)(model)
        with torch.no_grad():
            found, exact = compiled(x), model(x)
        [graph] = compiled.report().graphs
        raced[accuracy] = {row.backend: row.outcome for row in graph.contest.contestants}
        assert not graph.contest.remembered
        assert torch.nn.functional.cosine_similarity(found, exact).min() > 0.99
    assert [*raced[""]] == ["eager", "onnxrt", "ts"]
    assert sorted(raced["cosine>=0.99"]) == [
        "eager",
        "eager:bf16",
        "onnxrt",
        "onnxrt:int8",
        "ts",
        "ts:bf16",
    ]
    assert raced["cosine>=1"]["onnxrt:int8"] == raced["cosine>=1"]["eager:bf16"] == "wrong"


def test_inputs_that_the_graph_changes_are_as_before():
    def change(x):
        wait(SLEEP)
        x.add_(1)
        return (x * 2,)

    x = torch.ones(3)
    held = run_race(switch_of(change, quick=lambda x: (x.add_(1) * 2,)), x)
    assert x.tolist() == [1, 1, 1]
    assert held.winner == "quick"


def test_random_numbers_are_as_before_and_the_same_for_all():
    def draw(x):
        wait(SLEEP)
        return (x + torch.rand(3),)

    state = torch.get_rng_state()
    held = run_race(switch_of(draw, quick=lambda x: (x + torch.rand(3),)))
    assert torch.equal(torch.get_rng_state(), state)
    assert held.winner == "quick"


def test_gradients_count_too():
    class WrongBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            return grad * 3

    x = torch.ones(3, requires_grad=True)
    held = run_race(
        switch_of(
            lambda x: (wait(SLEEP), (x * 2,))[1],
            wrong=lambda x: (WrongBackward.apply(x),),
            right=lambda x: (x * 2,),
        ),
        x,
    )
    assert outcomes(held)["wrong"] == "wrong"
    assert held.winner == "right"
    assert x.grad is None


@pytest.mark.usefixtures("real_clock")
def test_real_backends_race_and_the_second_time_the_winner_is_known(monkeypatch):
    # However busy the machine, this race is remembered.
    monkeypatch.setattr(ranking, "MATTERS", float("inf"))
    net = torch.nn.Sequential(
        torch.nn.Linear(32, 32), torch.nn.ReLU(), torch.nn.Linear(32, 4)
    ).eval()
    x = torch.randn(8, 32)
    options = {"candidates": "onnxrt+aot_eager", "budget": 1.0}
    with torch.no_grad():
        fast = dynamo_ext.optimize("auto", options=options)(net)
        torch.testing.assert_close(fast(x), net(x))
        torch.testing.assert_close(fast(x), net(x))
        [graph] = fast.report().graphs
    first = graph.contest
    assert {row.backend for row in first.contestants} == {"eager", "onnxrt", "aot_eager"}
    torch._dynamo.reset()
    with torch.no_grad():
        again = dynamo_ext.optimize("auto", options=options)(net)
        torch.testing.assert_close(again(x), net(x))
        [graph] = again.report().graphs
    assert graph.contest.remembered
    assert graph.contest.winner == first.winner
    # Other shapes are another race.
    torch._dynamo.reset()
    with torch.no_grad():
        other = dynamo_ext.optimize("auto", options=options)(net)
        other(torch.randn(3, 32))
        [graph] = other.report().graphs
    assert not graph.contest.remembered


def test_a_remembered_winner_is_compiled_alone(monkeypatch):
    compiled = []

    def named(name):
        def compile_it(graph, inputs):
            compiled.append(name)
            return graph.forward

        return Compiler(CallableBackend(compile_it), {"verify": False})

    monkeypatch.setattr(registry, "compiler", lambda name, *_: named(name))
    monkeypatch.setattr(auto, "candidate_names", lambda _: ["one", "two"])
    monkeypatch.setattr("dynamo_ext.auto.cache.version_of", lambda _: "1")
    backend = auto.AutoBackend()
    monkeypatch.setattr(backend, "store", auto.BACKEND.store)
    settled = {spec.name: spec.default for spec in backend.options}

    def graph():
        return torch.fx.GraphModule({}, _graph())

    backend.lower(graph(), [torch.ones(3)], settled)
    assert compiled == ["one", "two"]
    key = graph_key(graph(), [torch.ones(3)], training=False)
    place = place_key(["one", "two"], torch.device("cpu"))
    backend.store.remember(key, place, GraphRace("two"))
    compiled.clear()
    backend.lower(graph(), [torch.ones(3)], settled)
    assert compiled == ["two"]
    # A winner that is nobody here is no answer.
    backend.store.remember(key, place, GraphRace("unheard of"))
    compiled.clear()
    backend.lower(graph(), [torch.ones(3)], settled)
    assert compiled == ["one", "two"]


@pytest.mark.parametrize(
    ("updated", "raced"),
    [
        ("a", ["a", "b"]),
        ("b", ["a", "b"]),
        ("c", ["a", "c"]),
        ("", ["a"]),
        ("abc", ["a", "b", "c"]),
    ],
)
def test_a_new_version_of_a_backend_forgets_its_result_alone(monkeypatch, updated, raced):
    compiled = []

    def named(name):
        made = CallableBackend(lambda graph, _: compiled.append(name) or graph.forward)
        return Compiler(made, {"verify": False})

    monkeypatch.setattr(registry, "compiler", lambda name, *_: named(name))
    monkeypatch.setattr(auto, "candidate_names", lambda _: ["a", "b", "c"])
    versions = dict.fromkeys(["eager", "a", "b", "c"], "1")
    monkeypatch.setattr("dynamo_ext.auto.cache.version_of", versions.__getitem__)
    rows = [("eager", "slower", 1.0), ("a", "won", 3.0), ("b", "slower", 2.0), ("c", "slower", 1.5)]
    row = GraphCandidateResult
    held = GraphRace("a", tuple(row(n, o, 1 / s, s, s - 0.1, s, version="1") for n, o, s in rows))
    graph = torch.fx.GraphModule({}, _graph())
    place = place_key(["a", "b", "c"], torch.device("cpu"))
    key = graph_key(graph, [torch.ones(3)], training=False)
    auto.BACKEND.store.remember(key, place, held)
    versions |= dict.fromkeys(updated, "2")
    settled = {spec.name: spec.default for spec in auto.BACKEND.options}
    run = auto.BACKEND.lower(graph, [torch.ones(3)], settled)
    assert compiled == raced
    run(torch.ones(3))
    left = auto.BACKEND.store.find(key, place).contest
    assert sorted(row.backend for row in left.contestants) == ["a", "b", "c", "eager"]
    assert {row.backend for row in left.contestants if row.version == "2"} <= {*updated}


@pytest.mark.parametrize("value", ["", "+", "eager", "auto+onnxrt"])
def test_candidates_that_cannot_race_are_refused(value):
    with pytest.raises(OptionError):
        auto.candidate_names({"candidates": value})


def test_a_race_that_could_not_tell_is_not_remembered(monkeypatch):
    monkeypatch.setattr(ranking, "MATTERS", -1.0)
    monkeypatch.setattr(turns, "DROP_AFTER", ())
    fast = dynamo_ext.optimize("auto", options={"candidates": "aot_eager", "budget": 0.3})
    with torch.no_grad():
        report = fast(torch.nn.ReLU())
        report(torch.ones(3))
        [graph] = report.report().graphs
    assert "busy" in graph.contest.note
    assert auto.BACKEND.store.all() == []


def test_a_race_on_a_busy_machine_is_not_remembered(monkeypatch):
    monkeypatch.setattr(graph_race, "MachineLoad", lambda: Company(0.8))
    held = run_race(switch_of(slow_eager, fast=lambda x: (x + 1,)), torch.ones(3))
    assert held.winner == "fast"
    assert not held.conclusive
    assert "0.8 cores busy" in held.note


def test_who_is_faster_than_eager_is_remembered_however_loose_the_others(monkeypatch):
    monkeypatch.setattr(ranking, "MATTERS", -1.0)
    held = run_race(switch_of(slow_eager, fast=lambda x: (x + 1,)), torch.ones(3))
    assert held.winner == "fast"
    assert held.note == ""


def test_a_race_that_fails_leaves_eager(monkeypatch):
    def fails(*args):
        message = "no"
        raise RuntimeError(message)

    monkeypatch.setattr(graph_race, "run_race", fails)
    fast = dynamo_ext.optimize("auto", options={"candidates": "aot_eager"})(torch.nn.ReLU())
    x = torch.randn(3)
    with torch.no_grad():
        for _ in range(4):
            assert torch.equal(fast(x), x.relu())
        report = fast.report()
    assert report.graphs[0].contest.winner == "eager"
    assert any(fallback.exception == "RuntimeError" for fallback in report.fallbacks)


@pytest.mark.usefixtures("real_clock")
def test_a_race_is_no_part_of_running_the_graph(monkeypatch):
    run = graph_race._time
    # How long the race alone takes depends on the machine: 0.09 to 0.9 s on an idle one.
    monkeypatch.setattr(graph_race, "_time", lambda *args: wait(0.5) or run(*args))
    options = {"candidates": "ts", "budget": 0.3}
    session = dynamo_ext.optimize("auto", options=options)
    fast = session(lambda x: torch.relu(x) + 1)
    with torch.no_grad():
        fast(torch.ones(3))
        raced = fast.report()
        fast(torch.ones(3))
    again = fast.report()
    assert raced.race_seconds >= raced.graphs[0].contest.seconds > 0.5
    assert raced.graphs[0].run_seconds < raced.graphs[0].contest.seconds
    assert raced.run_seconds < raced.seconds - raced.race_seconds
    assert again.race_seconds == raced.race_seconds


def test_no_race_is_held_within_a_checkpoint(races):
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Tanh())
    fast = dynamo_ext.optimize("auto", options={"budget": 0.2})(module)
    x = torch.randn(3, 4, requires_grad=True)
    for _ in range(2):
        result = torch.utils.checkpoint.checkpoint(fast, x, use_reentrant=False)
        (found,) = torch.autograd.grad(result.sum(), x)
    (wanted,) = torch.autograd.grad(module(x).sum(), x)
    torch.testing.assert_close(found, wanted)
    [fallback] = fast.report().fallbacks
    assert "checkpoint" in fallback.message
    assert not races.all()
    fast(x)
    assert fast.report().graphs[0].contest is not None


def test_who_would_begin_after_the_time_for_compiling_is_left_out(monkeypatch):
    ofi = registry.get("ofi")
    lower = ofi.lower_for
    monkeypatch.setattr(ofi, "lower_for", lambda *args: wait(1.1) or lower(*args))
    options = {"candidates": "ofi+ts", "budget": 0.3, "remember": False}
    module = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    fast = dynamo_ext.optimize("auto", options=options)(module)
    x = torch.randn(3, 8)
    with torch.no_grad():
        with first_run.within(first_run.FirstRun(1.0)):
            torch.testing.assert_close(fast(x), module(x))
        # There was no time left for the race, either.
        assert fast.report().graphs[0].contest is None
        torch.testing.assert_close(fast(x), module(x))
    rows = {row.backend: row for row in fast.report().graphs[0].contest.contestants}
    assert rows["ts"].outcome == "eager"
    assert "the 1 s for the first run were used up" in rows["ts"].reason
    assert rows["ofi"].seconds > 0


def test_torchscript_races_where_it_is_named_alone():
    usual = auto.candidate_names({"candidates": "available"})
    assert {"onnxrt", "openvino"} <= {*usual}
    assert not {"ts", "ofi", "tvm_meta_schedule"} & {*usual}
    assert auto.candidate_names({"candidates": "ts+ofi"}) == ["ts", "ofi"]


@pytest.mark.parametrize("asked", ["available", "openvino+onnxrt"])
def test_what_compiles_for_each_size_is_not_raced_where_sizes_change(
    monkeypatch, real_clock, asked
):
    del real_clock
    monkeypatch.setattr(registry, "racing", lambda: ["openvino", "onnxrt"])
    options = {"candidates": asked, "budget": 0.1}
    module, x = torch.nn.Sequential(torch.nn.Linear(6, 6), torch.nn.GELU()), torch.randn(5, 6)
    fast = dynamo_ext.optimize("auto", options=options, dynamic=True)(module)
    with torch.no_grad():
        torch.testing.assert_close(fast(x), module(x), rtol=1e-4, atol=1e-5)
    rows = {row.backend: row for row in fast.report().graphs[0].contest.contestants}
    assert (rows["openvino"].outcome == "not raced") is (asked == "available")
    assert rows["onnxrt"].seconds > 0


@pytest.mark.parametrize("dynamic", [True, False])
def test_inductor_compiles_last_where_sizes_are_symbolic(monkeypatch, dynamic):
    order = []

    def noted(self, graph, inputs):
        order.append(self.name)
        return graph.forward

    monkeypatch.setattr(Compiler, "__call__", noted)
    lowered = auto.AutoBackend()
    options = {spec.name: spec.default for spec in lowered.options}
    options |= {"candidates": "inductor+onnxrt+openvino", "remember": False}
    torch.compile(
        torch.sin, backend=lambda *given: lowered.lower(*given, options), dynamic=dynamic
    )(torch.ones(3, 4))
    last = ["onnxrt", "openvino", "inductor"] if dynamic else ["inductor", "onnxrt", "openvino"]
    assert order == last


@pytest.mark.parametrize("divide", [True, False])
def test_candidates_divide_graphs_where_auto_is_to(divide: bool) -> None:
    assert auto._compiler("aot_eager", {"divide": divide}).options["divide"] is divide
    assert "divide" not in auto._compiler("eager:bf16", {"divide": divide}).options
