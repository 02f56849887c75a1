"""Graphs in parts: results, gradients and names as in eager, on every kind of backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional

import dynamo_ext
from dynamo_ext.backends.pipeline.division import graph_parts

if TYPE_CHECKING:
    from collections.abc import Callable

BACKENDS = ("aot_eager", "onnxrt")


@pytest.fixture
def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Linear(6, 8), nn.Tanh(), nn.LayerNorm(8), nn.Linear(8, 3), nn.Softplus()
    )


X, Y = torch.randn(4, 6), torch.tensor([0, 2, 1, 1])


def in_two(net: nn.Sequential, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    features = net(x)
    head = (features * 2).exp().mean(1) + features.square().sum(1)
    return features, head.log()


def under_autocast(net: nn.Sequential, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.autocast("cpu", torch.bfloat16):
        features = net(x)
        head = (features @ features.T).softmax(1) * 2 + 1
        score = head.log().sum() * head.mean()
    return features, head, score


def in_modes(net: nn.Sequential, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    with torch.enable_grad():
        features = net(x).tanh() * 3
        score = (features * features).mean().sqrt() + 1
        with torch.no_grad():
            known = score * 2 + features.max() - 1
    return features, score, known


def with_sizes(net: nn.Sequential, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    features = net(x) * x.shape[0]
    rows = features.reshape(-1, 1)[: x.size(0)] * features.numel()
    return features, (rows * 2).sin().sum() + rows.mean()


def in_chunks(net: nn.Sequential, x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second, third = (net(x) * 2).tanh().split(1, dim=1)
    head = (first * second).exp().sqrt() + third
    return first, second, third, head.log().mean() * head.sum()


def looked_at(
    function: Callable[..., Any], net: nn.Sequential, x: torch.Tensor, *, grad: bool = True
) -> list[torch.Tensor]:
    """Results of a call, gradients between, in the order of hooks, and those of parameters."""
    net.zero_grad()
    with torch.set_grad_enabled(grad):
        results = function(net, x)
    *between, last = [each for each in results if each.requires_grad]
    seen: list[torch.Tensor] = []
    for each in between:
        each.register_hook(seen.append)
        each.retain_grad()
    seen += torch.autograd.grad(last.sum(), between, retain_graph=True)
    last.sum().backward()
    grads = [each.grad for each in (*between, *net.parameters())]
    return [each.detach().clone() for each in (*results, *seen, *grads)]


@pytest.mark.parametrize(
    ("function", "backend"),
    [
        *(
            (each, backend)
            for each in (in_two, in_modes, with_sizes, in_chunks)
            for backend in BACKENDS
        ),
        (under_autocast, "aot_eager"),
    ],
)
def test_gradients_between_are_eager_s(net, function, backend) -> None:
    torch._dynamo.reset()
    fast = dynamo_ext.optimize(backend)(function)
    # Sizes are symbols from the second on.
    for x in (X, X[:3], X[:2]):
        for grad in (True, function is not in_modes):
            expected_ones = looked_at(function, net, x, grad=grad)
            for found, expected in zip(
                looked_at(fast, net, x, grad=grad), expected_ones, strict=True
            ):
                torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)
    report = fast.report()
    assert not [f for f in report.fallbacks if f.stage in ("lower", "run", "verify")]


def test_the_parts_are_in_the_engine(net) -> None:
    fast = dynamo_ext.optimize("onnxrt")(in_two)
    looked_at(fast, net, X)
    (graph,) = fast.report().graphs
    engines = {part.name: part.engine for part in graph.partitions}
    assert {"forward_0_of_part_1", "forward_0_of_part_2"} <= set(engines) or set(
        engines.values()
    ) == {"onnxrt"}
    assert sum(part.role == "forward" for part in graph.partitions) == 2


def test_a_part_of_few_operations_is_eager_s_and_the_report_says_so(net) -> None:
    def step(x, y):
        scores = net(x)
        return scores, functional.mse_loss(scores, y)

    fast = dynamo_ext.optimize("onnxrt")(step)
    scores, loss = fast(X, torch.zeros(len(X), 3))
    assert torch.autograd.grad(loss, scores)
    (graph,) = fast.report().graphs
    (small,) = [part for part in graph.partitions if part.engine == "eager"]
    assert small.short
    assert small.reason == "Only 1 operation between results of the graph: min_partition is 3."
    assert any(part.engine == "onnxrt" for part in graph.partitions)


@pytest.mark.parametrize(
    "loss",
    [functional.cross_entropy, lambda logits, y: logits.log_softmax(1)[range(len(y)), y].mean()],
)
def test_a_part_for_which_torch_would_wake_threads_is_in_the_engine(net, loss) -> None:
    def step(x, y):
        logits = net(x)
        return logits, loss(logits, y)

    fast = dynamo_ext.optimize("onnxrt")(step)
    logits, found = fast(X, Y)
    (gradient,) = torch.autograd.grad(found, logits, retain_graph=True)
    expected = logits.detach().requires_grad_()
    loss(expected, Y).backward()
    torch.testing.assert_close(gradient, expected.grad)
    (graph,) = fast.report().graphs
    in_part = [part for part in graph.partitions if part.name.endswith("of_part_2")]
    assert {(part.role, part.engine) for part in in_part} == {
        ("forward", "onnxrt"),
        ("backward", "onnxrt"),
    }


def test_what_leads_to_no_result_is_no_reason_to_divide(net) -> None:
    def step(x, other):
        before = net(other)
        result = net(x)
        _unused = (before + before).exp()
        return result

    x, other = X.clone().requires_grad_(), X.clone().requires_grad_()
    fast = dynamo_ext.optimize("aot_eager")(step)
    of_x, of_other = torch.autograd.grad(fast(x, other).sum(), [x, other], allow_unused=True)
    assert of_x is not None
    assert of_other is None


def test_what_leads_to_no_result_behind_a_cut_gives_no_gradient(net) -> None:
    def step(x, other):
        first = net(x)
        unused = (first * other).exp()
        last = first.tanh().sin()
        _unused = last * other + unused.sum()
        return first, last

    x, other = X.clone().requires_grad_(), torch.ones(1, requires_grad=True)
    fast = dynamo_ext.optimize("aot_eager")(step)
    (first, last), (_, expected) = fast(x, other), step(x, other)
    found = torch.autograd.grad(last.sum(), [first, x, other], allow_unused=True)
    assert found[2] is None
    torch.testing.assert_close(found[1], *torch.autograd.grad(expected.sum(), [x]))


def test_a_part_that_changes_what_autograd_recorded_is_eager_s(net) -> None:
    def step(net, x):
        both = net(x)
        first, other = both * 2, both.sin()
        score = (first * 2).exp().mean() * first.sum()
        other.mul_(2).add_(first)
        last = (other * 2).sin().mean() + other.sum() * score
        return first, other, last

    fast = dynamo_ext.optimize("aot_eager", options={"verify": True})(step)
    for found, expected in zip(looked_at(fast, net, X), looked_at(step, net, X), strict=True):
        torch.testing.assert_close(found, expected)
    reasons = {part.reason for part in fast.report().graphs[0].partitions}
    assert (
        "It changes in place what an earlier part of the graph computed, for autograd." in reasons
    )


def test_torch_compile_keeps_torch_s_way(net) -> None:
    features, head = torch.compile(in_two, backend="dx_aot_eager")(net, X)
    with pytest.raises(RuntimeError, match="to not have been used"):
        torch.autograd.grad(head.sum(), features)


@pytest.mark.parametrize("given", [{"divide": False}, {"divide": "false"}])
def test_the_option_leaves_graphs_whole(net, given) -> None:
    fast = dynamo_ext.optimize("aot_eager", options=given)(in_two)
    features, head = fast(net, X)
    assert features.grad_fn is head.grad_fn or features.grad_fn.name() == head.grad_fn.name()
    with pytest.raises(RuntimeError, match="to not have been used"):
        torch.autograd.grad(head.sum(), features)


def test_a_part_that_cannot_be_compiled_is_eager_s_alone(net, monkeypatch) -> None:
    real = graph_parts.joined
    runs: list[Any] = []
    monkeypatch.setattr(
        graph_parts,
        "joined",
        lambda graph, parts, calls: runs.extend(calls) or real(graph, parts, calls),
    )
    from dynamo_ext.backends.torch_private import aot

    compile_by_aot = aot.compile_by_aot

    def fails_at_times(name: str, graph: Any, inputs: Any, **options: Any) -> Any:
        if not any(
            node.op == "placeholder" and "features" in node.name for node in graph.graph.nodes
        ):
            return compile_by_aot(name, graph, inputs, **options)
        message = "no such operation"
        raise RuntimeError(message)

    monkeypatch.setattr(aot, "compile_by_aot", fails_at_times)

    def step(net, x):
        features = net(x) * 2
        head = (features * 2).exp().mean(1) + features.square().sum(1)
        return features, head.log()

    fast = dynamo_ext.optimize("aot_eager")(step)
    for found, expected in zip(looked_at(fast, net, X), looked_at(step, net, X), strict=True):
        torch.testing.assert_close(found, expected)
    assert len(runs) == 2
    assert any("no such operation" in f.message for f in fast.report().fallbacks)
