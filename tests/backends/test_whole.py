"""Backends that take a graph whole: their failures, too, end in eager's result."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch.nn import functional as F  # noqa: N812 - as torch's own documentation has it

from dynamo_ext.backends import registry, torch_private, whole
from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.callables import CallableBackend
from dynamo_ext.backends.compilers import Compiler

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
    from dynamo_ext.backends import torch_private

    def broken(*_: Any) -> Any:
        msg = "g++ said no"
        raise RuntimeError(msg)

    monkeypatch.setattr(torch_private, "inductor_compile", broken)
    run(harness, fn, "inductor")
    assert harness.stages == ["lower"]


def test_a_callable_that_stays_eager(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        message = "Nothing to gain."
        raise StayEager(message)

    run(harness, fn, mine)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unsupported", "graph")
    assert (fallback.message, fallback.exception) == ("Nothing to gain.", "")


def test_a_callable_that_raises(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        msg = "I am new here"
        raise TypeError(msg)

    run(harness, fn, mine)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope, fallback.exception) == ("lower", "graph", "TypeError")


def test_a_callable_that_returns_nothing(harness: Any) -> None:
    run(harness, fn, lambda graph, inputs: None)
    assert harness.stages == ["lower"]


def test_a_callable_whose_code_raises_in_the_end(harness: Any) -> None:
    calls = []

    def mine(graph: Any, inputs: Any) -> Any:
        def compiled(*args: Any) -> Any:
            calls.append(1)
            if len(calls) > 2:
                msg = "worn out"
                raise RuntimeError(msg)
            return graph.forward(*args)

        return compiled

    run(harness, fn, mine, calls=8)
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.count) == ("run", 3)
    assert len(calls) == 5


@pytest.mark.parametrize("function", [fn, mutating])
def test_a_callable_that_computes_something_else(harness: Any, function: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        return lambda *args: [out * 1.01 for out in graph.forward(*args)]

    compiled = harness.compile(function, registry.compiler(mine))
    if function is fn:
        torch.testing.assert_close(compiled(X), fn(X))
    else:
        compiled(X.clone())
    assert harness.stages == ["verify"]
    torch.testing.assert_close(compiled(X.clone()), function(X.clone()))


def test_random_graphs_are_not_compared(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        return lambda *args: list(graph.forward(*args))

    def draw(x: torch.Tensor) -> torch.Tensor:
        return x + torch.rand_like(x)

    compiled = harness.compile(draw, registry.compiler(mine))
    torch.manual_seed(3)
    found = compiled(X)
    torch.manual_seed(3)
    torch.testing.assert_close(found, draw(X))
    assert not harness.stages


def test_half_done_mutation_is_not_done_twice(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        def compiled(*args: Any) -> Any:
            graph.forward(*args)
            msg = "too late"
            raise RuntimeError(msg)

        return compiled

    x = X.clone()
    with pytest.raises(RuntimeError, match="too late"):
        harness.compile(mutating, registry.compiler(mine))(x)
    torch.testing.assert_close(x, X + 1)


def test_gradients_through_a_callable(harness: Any) -> None:
    def mine(graph: Any, inputs: Any) -> Any:
        return lambda *args: list(graph.forward(*args))

    x = X.clone().requires_grad_()
    harness.compile(fn, registry.compiler(mine))(x).sum().backward()
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


def test_what_checks_itself_gets_no_wrapper() -> None:
    class Outer(CallableBackend):
        checks_itself = True

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

    bare = torch_private.bare(wrapped)
    assert not getattr(bare, "_torchdynamo_disable", False)
    assert torch_private.bare(bare) is bare
    assert bare(X) is X


def _batch_norm(x: torch.Tensor, *, training: bool) -> torch.Tensor:
    return F.batch_norm(x, torch.zeros(3), torch.ones(3), None, None, training)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: F.layer_norm(x, (3,)), False),
        (lambda x: F.interpolate(x[None], scale_factor=2.0), False),
        (torch.linalg.norm, False),
        (lambda x: _batch_norm(x, training=False), False),
        (lambda x: _batch_norm(x, training=True), True),
        (lambda x: F.instance_norm(x[None], torch.zeros(4), torch.ones(4)), True),
        (lambda x: F.embedding(x.long(), torch.ones(9, 2)), False),
        (lambda x: F.embedding(x.long(), torch.ones(9, 2), max_norm=1.0), True),
        (lambda x: operator.iadd(x, 1), True),
        (lambda x: operator.invert(x.long()), False),
        (lambda x: x.add_(1), True),
        (lambda x: F.relu(x, inplace=True), True),
        (lambda x: torch.add(x, 1, out=torch.empty(4, 3)), True),
    ],
)
def test_what_may_change_an_input(function: Any, expected: bool) -> None:
    seen = []

    def compiler(graph: Any, _inputs: Any) -> Any:
        seen.append(whole._may_mutate(graph))
        return graph.forward

    torch.compiler.reset()
    torch.compile(function, backend=compiler)(torch.rand(4, 3))
    assert seen == [expected]
