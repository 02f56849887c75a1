"""What each operation takes in eager, and that asking for it changes nothing."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn import functional

from dynamo_ext.capture.listen.run_log import GraphCalls
from dynamo_ext.measure import operation_profiler
from dynamo_ext.measure.operation_profiler import time_operations
from tests.auto.conftest import Company
from tests.capture.captured import captured
from tests.timing import fake_clock


@pytest.fixture(autouse=True)
def _clock(monkeypatch):
    return fake_clock.install(monkeypatch, tick=1e-6)


@pytest.fixture(autouse=True)
def _fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture
def sleepy():
    """An operator of another library that takes 50 ms, and how often it ran."""
    runs = []
    library = torch.library.Library("dx_times", "DEF")
    library.define("sleepy(Tensor x) -> Tensor")

    def sleep(x):
        runs.append(1)
        operation_profiler.time.sleep(0.05)
        return x + 1

    library.impl("sleepy", sleep, "CompositeExplicitAutograd")
    torch.library.register_fake("dx_times::sleepy", torch.empty_like, lib=library)
    yield runs
    library._destroy()


def test_the_slow_operation_has_the_time_and_what_is_foreign_runs_once(sleepy):
    graph, args = captured(lambda x: torch.relu(torch.ops.dx_times.sleepy(x)) + 1, torch.ones(3))
    sleepy.clear()
    seconds = time_operations(graph, args)
    assert list(seconds) == [n.name for n in graph.graph.nodes if n.op.startswith("call_")]
    assert all(taken > 0 for taken in seconds.values())
    assert max(seconds, key=seconds.__getitem__) == next(iter(seconds))
    assert next(iter(seconds.values())) >= 0.05
    assert len(sleepy) == 1


def test_weights_statistics_gradients_and_random_numbers_stay_as_they_are():
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Dropout())
    x = torch.randn(2, 3, 8, 8)
    graph, args = captured(net, x)
    kept = {name: value.clone() for name, value in net.state_dict().items()}
    versions = [value._version for value in net.state_dict().values()]
    drawn = torch.get_rng_state()
    assert time_operations(graph, args)
    assert all(torch.equal(value, kept[name]) for name, value in net.state_dict().items())
    assert [value._version for value in net.state_dict().values()] == versions
    assert torch.equal(torch.get_rng_state(), drawn)
    assert all(p.grad is None for p in net.parameters())


def test_inputs_that_the_graph_changes_stay_as_they_are():
    def change(x):
        x.add_(1)
        x.unsqueeze_(0)
        return x.squeeze_(0) * 2

    graph, args = captured(change, torch.zeros(3))
    before = [a.clone() for a in args]
    assert time_operations(graph, args)
    assert all(torch.equal(a, b) for a, b in zip(args, before, strict=True))


def test_what_is_changed_in_place_is_changed_once():
    def look_up(index, table):
        index += 1
        table = table * 1
        table //= 0.5
        return functional.embedding(index, table) / table[0]

    graph, args = captured(look_up, torch.tensor([0, 1]), torch.ones(3, 2))
    names = [n.name for n in graph.graph.nodes if n.op.startswith("call_")]
    assert list(time_operations(graph, [torch.tensor([0, 1]), *args[1:]])) == names


def test_an_error_leaves_no_switch_behind():
    def fails(x):
        with torch.autocast("cpu", dtype=torch.bfloat16):
            y = x @ x
            with torch.no_grad():
                return functional.embedding(torch.tensor([9]), y.float())

    graph, _ = captured(lambda x: fails(x) if x.numel() > 99 else x, torch.ones(10, 10))
    with pytest.raises(IndexError):
        time_operations(graph, (torch.ones(2, 2),))
    assert not torch.is_autocast_enabled("cpu")
    assert torch.is_grad_enabled()


def test_what_sets_a_mode_has_no_time():
    def infers(x):
        with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
            return torch.relu(x)

    graph, args = captured(infers, torch.ones(3))
    assert [name.split("_")[0] for name in time_operations(graph, args)] == ["relu"]


def test_repeats_end_with_the_budget(monkeypatch):
    monkeypatch.setattr(operation_profiler, "BUDGET", 0.0)
    graph, args = captured(lambda x: torch.relu(x) + 1, torch.ones(3))
    started = operation_profiler.time.perf_counter()
    assert len(time_operations(graph, args)) == 2
    # Each operation is timed once, which takes a few readings of the clock.
    assert operation_profiler.time.perf_counter() - started < 20e-6


def test_what_the_graph_itself_holds_stays_as_it_is():
    held = nn.Module()
    held.register_buffer("seen", torch.zeros(3))
    drawn = torch.fx.Graph()
    x, seen = drawn.placeholder("x"), drawn.get_attr("seen")
    drawn.output(drawn.call_function(torch.add, (drawn.call_method("add_", (seen, 1)), x)))
    assert len(time_operations(torch.fx.GraphModule(held, drawn), (torch.ones(3),))) == 2
    assert held.seen.tolist() == [0, 0, 0]


def test_transforms_of_torch_func_are_not_timed():
    graph, args = captured(torch.func.grad(lambda t: (t**2).sum()), torch.ones(3))
    calls = GraphCalls()
    operation_profiler.OperationTimes()(calls, graph, args)
    assert (calls.untimed, calls.operation_seconds) == ("It holds transforms of torch.func.", {})
    assert torch.func.grad(lambda t: (t**2).sum())(torch.ones(3)).tolist() == [2, 2, 2]


def test_weights_that_are_only_read_are_not_copied():
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    graph, args = captured(net, torch.ones(2, 3))
    placeholders = [n.name for n in graph.graph.nodes if n.op == "placeholder"]
    found = operation_profiler._changed(graph)
    of = {id(value): name for name, value in zip(placeholders, args, strict=True)}
    assert of[id(net[0].weight)] not in found
    assert of[id(net[1].running_mean)] in found

    graph, _ = captured(net.eval(), torch.ones(2, 3))
    assert not operation_profiler._changed(graph)

    def changes(weight, x):
        y = functional.linear(x, weight)
        weight.view(-1).add_(1)
        return y

    graph, _ = captured(changes, torch.ones(3, 3), torch.ones(2, 3))
    [name] = operation_profiler._changed(graph)
    assert "weight" in name


def test_a_graph_is_timed_at_its_first_call_alone(sleepy):
    graph, args = captured(torch.ops.dx_times.sleepy, torch.ones(3))
    sleepy.clear()
    calls, on_graph_call = GraphCalls(), operation_profiler.OperationTimes()
    on_graph_call(calls, graph, args)
    on_graph_call(calls, graph, args)
    assert len(sleepy) == 1
    empty = torch.fx.Graph()
    empty.output(empty.placeholder("x"))
    calls = GraphCalls()
    on_graph_call(calls, torch.fx.GraphModule({}, empty), args)
    first = calls.profile_seconds
    on_graph_call(calls, torch.fx.GraphModule({}, empty), args)
    assert calls.profile_seconds == first > 0


def test_what_other_programs_did_meanwhile_is_kept(monkeypatch):
    monkeypatch.setattr(operation_profiler, "MachineLoad", lambda: Company(0.6))
    graph, args = captured(torch.sin, torch.ones(3))
    calls = GraphCalls()
    operation_profiler.OperationTimes()(calls, graph, args)
    assert calls.busy_cores == 0.6
