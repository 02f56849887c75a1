"""Backends that take a graph whole: their failures, too, end in eager's result."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it

import dynamo_ext
from dynamo_ext.backends import precision, registry
from dynamo_ext.backends.base import StayEager, WholeGraphBackend
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.backends.torch_private import aot

X = torch.linspace(-1, 1, 6)


def fn(x: torch.Tensor) -> torch.Tensor:
    return x.sin() * 2 + 1


def mutating(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def run(harness: Any, function: Any, backend: Any, calls: int = 3) -> Any:
    compiled = harness.compile(function, registry.compiler(backend))
    for _ in range(calls):
        mine, theirs = X.clone(), X.clone()
        torch.testing.assert_close(compiled(mine), function(theirs))
        torch.testing.assert_close(mine, theirs)
    return compiled


def test_eager_is_the_graph_itself() -> None:
    graph = torch.fx.symbolic_trace(fn)
    assert registry.compiler("eager")(graph, [X]) == graph.forward


@pytest.mark.parametrize("function", [fn, mutating])
def test_inductor(harness: Any, function: Any) -> None:
    if not registry.get("inductor").probe().available:
        pytest.skip("no C++ compiler")
    run(harness, function, "inductor")
    assert not harness.stages


def test_inductor_failing(harness: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from dynamo_ext.backends.engines.inductor import torch_private

    def broken(*_: Any) -> Any:
        msg = "g++ said no"
        raise RuntimeError(msg)

    monkeypatch.setattr(torch_private, "inductor_compile", broken)
    run(harness, fn, "inductor")
    assert harness.stages == ["lower"]


def test_a_backend_that_returns_the_lowered_graph_itself_has_it_run_so(harness: Any) -> None:
    class Same(WholeGraphBackend):
        name = "same"
        summary = "The graph as it is given"
        options = (precision.option("bf16"),)

        def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
            del example_inputs, options
            return graph

    layer, x = torch.nn.Linear(8, 8), torch.randn(4, 8)
    with torch.no_grad():
        found = harness.compile(layer, Compiler(Same(), {"precision": "bf16"}))(x)
        with torch.autocast("cpu", torch.bfloat16):
            expected = layer(x).float()
    torch.testing.assert_close(found, expected, rtol=0, atol=0)


def test_a_callable_that_stays_eager(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        message = "Nothing to gain."
        raise StayEager(message)

    run(harness, fn, mine)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unsupported", "graph")
    assert (fallback.message, fallback.exception) == ("Nothing to gain.", "")


def raises(graph: Any, inputs: Any) -> Any:
    message = "I am new here"
    raise TypeError(message)


@pytest.mark.parametrize("mine", [raises, lambda *_: None])
def test_a_callable_that_raises_or_returns_nothing(harness: Any, mine: Any) -> None:
    run(harness, fn, mine)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("lower", "graph")
    assert mine is not raises or fallback.exception == "TypeError"


def test_a_callable_whose_code_raises_in_the_end(harness: Any) -> None:
    calls: list[int] = []
    run(harness, fn, raising(lambda call: calls.append(call) or call > 2), calls=8)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.count) == ("run", 3)
    assert len(calls) == 5


@pytest.mark.parametrize("function", [fn, mutating])
def test_a_callable_that_computes_something_else(harness: Any, function: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        return lambda *args: [out * 1.01 for out in graph.forward(*args)]

    run(harness, function, mine, calls=2)
    assert harness.stages == ["verify"]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own use of it
def test_a_check_leaves_no_level_of_a_derivative_behind() -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.func.hessian(lambda y: (y**2).sum())(x)

    def compiler(graph: Any, _inputs: Any) -> Any:
        return functools.partial(graph.forward)

    compiled = dynamo_ext.optimize(compiler)(function)
    assert torch.equal(compiled(torch.ones(3)), 2 * torch.eye(3))
    assert torch._C._functorch.peek_interpreter_stack() is None


def as_it_is(graph: Any, inputs: Any) -> Any:
    return lambda *args: list(graph.forward(*args))


def test_random_graphs_are_not_compared(harness: Any) -> None:
    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)

    compiled = harness.compile(draw, registry.compiler(as_it_is))
    torch.manual_seed(3)
    found = compiled(X)
    torch.manual_seed(3)
    torch.testing.assert_close(found, draw(X))
    assert not harness.stages


STATISTICS = torch.zeros(6), torch.ones(6)


def floor_divided(x: torch.Tensor) -> torch.Tensor:
    x //= 0.3
    return x * 2


def to_a_power(x: torch.Tensor) -> torch.Tensor:
    x **= 3
    return x * 2


def normed(x: torch.Tensor) -> torch.Tensor:
    y = F.batch_norm(x.expand(3, 6), *STATISTICS, training=True)
    x.copy_(STATISTICS[0])
    return y


def dropped(x: torch.Tensor) -> torch.Tensor:
    return F.dropout(x) + x


EFFECTS = [mutating, floor_divided, to_a_power, normed, dropped]


def raising(when: Any) -> Any:
    """A compiler whose code runs the graph, and then raises where ``when`` says so."""

    def compiler(graph: Any, inputs: Any) -> Any:
        calls = []

        def compiled(*args: Any) -> Any:
            calls.append(1)
            outputs = graph.forward(*args)
            if when(len(calls)):
                msg = "too late"
                raise RuntimeError(msg)
            return outputs

        return compiled

    return compiler


def outcome(function: Any, calls: int) -> tuple[Any, ...]:
    """What calls one after another give and leave behind."""
    for statistic, value in zip(STATISTICS, (0, 1), strict=True):
        statistic.fill_(value)
    torch.manual_seed(1)
    x = X.clone()
    found = [function(x).clone() for _ in range(calls)]
    return *found, x, *(each.clone() for each in STATISTICS), torch.rand(2)


@pytest.mark.parametrize("function", EFFECTS)
def test_what_a_failed_first_call_did_is_undone(harness: Any, function: Any) -> None:
    compiled = harness.compile(function, registry.compiler(raising(lambda call: call == 1)))
    expected = outcome(function, 2)
    for got, want in zip(outcome(compiled, 2), expected, strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert harness.stages == ["run"]


def test_a_graph_that_only_draws_draws_the_same_again(harness: Any) -> None:
    compiled = harness.compile(dropped, registry.compiler(raising(lambda call: call == 2)))
    for got, want in zip(outcome(compiled, 3), outcome(dropped, 3), strict=True):
        torch.testing.assert_close(got, want, rtol=0, atol=0)
    assert harness.stages == ["run"]


@pytest.mark.parametrize("function", EFFECTS[:-1])
def test_a_graph_with_effects_is_not_run_again_once_it_has_gone_well(
    harness: Any, function: Any
) -> None:
    compiled = harness.compile(function, registry.compiler(raising(lambda call: call == 2)))
    compiled(X.clone())
    x = X.clone()
    for statistic, value in zip(STATISTICS, (0, 1), strict=True):
        statistic.fill_(value)
    with pytest.raises(RuntimeError, match="too late"):
        compiled(x)
    after = x, STATISTICS[0].clone()
    x = X.clone()
    for statistic, value in zip(STATISTICS, (0, 1), strict=True):
        statistic.fill_(value)
    function(x)
    torch.testing.assert_close(after, (x, STATISTICS[0]), rtol=0, atol=0)
    assert not harness.stages


@pytest.mark.filterwarnings("ignore:The .grad attribute")
def test_what_cannot_be_undone_is_not_made_again(harness: Any) -> None:
    # Autograd has written down that it was changed.
    leaf = torch.ones(6, requires_grad=True)
    x = leaf * X
    with pytest.raises(RuntimeError, match="too late"):
        harness.compile(mutating, registry.compiler(raising(lambda _: True)))(x)
    torch.testing.assert_close(x.detach(), X + 1)
    assert not harness.stages


def test_gradients_through_a_callable(harness: Any) -> None:
    x = X.clone().requires_grad_()
    harness.compile(fn, registry.compiler(as_it_is))(x).sum().backward()
    torch.testing.assert_close(x.grad, X.cos() * 2)
    assert not harness.stages


@pytest.mark.parametrize("name", ["aot_eager", "inductor", "onnxrt"])
def test_an_optimizers_step_is_made_once(name: str) -> None:
    # Its weights are attributes of the graph, which a check on copies of the inputs would change.
    weight = torch.nn.Parameter(torch.ones(4))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.grad = torch.ones(4)
    torch.compile(optimizer.step, backend=registry.compiler(name))()
    torch.testing.assert_close(weight.detach(), torch.full((4,), 0.9))


def test_what_a_graph_holds_is_as_before_a_check() -> None:
    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("count", torch.zeros(()))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.count.add_(1)
            return x + self.count

    module = Counter()
    compiled = torch.compile(module, backend=registry.compiler("aot_eager"))
    for expected in (1.0, 2.0, 3.0):
        assert compiled(torch.zeros(2)).tolist() == [expected, expected]
    assert module.count.item() == 3


def test_what_is_self_verifying_gets_no_wrapper() -> None:
    class Outer(CallableBackend):
        self_verifying = True

    def compiled(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (fn(x),)

    graph = torch.fx.symbolic_trace(fn)
    made = Compiler(Outer(lambda *_: compiled), {"verify": True})
    assert made(graph, [X]) is compiled
    made = Compiler(CallableBackend(lambda *_: compiled), {"verify": True})
    assert made(graph, [X]) is not compiled


def test_compiled_code_has_no_wrapper_of_dynamos_but_the_outermost() -> None:
    @torch._dynamo.disable
    @torch._dynamo.disable
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return x

    bare = aot.finished(wrapped)
    assert not getattr(bare, "_torchdynamo_disable", False)
    assert aot.finished(bare) is bare
    assert bare(X) is X


def lowered(function: Any, *args: Any, grad: bool = False) -> list[int | None]:
    compiled = dynamo_ext.optimize("eager:bf16")(function)
    with torch.set_grad_enabled(grad):
        compiled(*args)
    return [graph.lowered for graph in compiled.report().graphs]


def test_what_autocast_lowers_is_counted() -> None:
    weight = torch.randn(8, 4)

    def mixed(x: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cpu", enabled=False):
            kept = x @ weight
        return kept + x @ weight

    x = torch.randn(2, 8)
    assert lowered(mixed, x) == [2 * 2 * 8 * 4]
    assert lowered(torch.sin, x) == [0]


def test_what_autocast_lowers_in_training_is_not_known() -> None:
    layer = torch.nn.Linear(8, 4)
    assert lowered(layer, torch.randn(2, 8), grad=True) == [None]


def test_counting_what_autocast_lowers_changes_nothing() -> None:
    layers = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.BatchNorm1d(8))
    compiled = dynamo_ext.optimize("eager:bf16")(layers)
    with torch.no_grad():
        compiled(torch.randn(4, 8))
    assert int(layers[1].num_batches_tracked) == 1
    assert type(layers[1].running_mean) is torch.Tensor
