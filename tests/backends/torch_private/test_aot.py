"""Gradients: of inputs that a graph changes out of autograd's sight, and taken a second time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import registry
from tests.capture.captured import captured

if TYPE_CHECKING:
    from collections.abc import Callable


def scaled(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.mul_(-3)
    return x.flip(-1)


def scaled_by_its_data(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    w.detach().mul_(2)
    return x.flip(-1)


def copied_into(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.copy_(x)
    return x.flip(-1)


def used_as_well(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        w.add_(1)
    return x.flip(-1) * w


@pytest.mark.parametrize("function", [scaled, scaled_by_its_data, copied_into, used_as_well])
def test_a_leaf_that_is_only_changed_has_no_gradient(
    harness: Any, scripted: Any, function: Callable[..., torch.Tensor]
) -> None:
    def gradients(run: Callable[..., torch.Tensor]) -> list[torch.Tensor | None]:
        x, w = (torch.arange(6.0).reshape(2, 3).requires_grad_() for _ in range(2))
        run(x, w).sum().backward()
        torch.testing.assert_close(w.detach(), changed)
        return [x.grad, w.grad]

    changed = torch.arange(6.0).reshape(2, 3)
    function(changed.clone(), changed)
    expected = gradients(function)
    compiled = harness.compile(function, scripted)
    for _ in range(2):
        torch.testing.assert_close(gradients(compiled), expected)
    assert harness.engines["scripted"]


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # Dynamo reads it.
def test_a_computed_tensor_that_is_changed_keeps_its_gradient(harness: Any, scripted: Any) -> None:
    def gradient(run: Callable[..., torch.Tensor]) -> torch.Tensor | None:
        w = torch.ones(3, requires_grad=True)
        product = w * 2
        run(torch.ones(3, requires_grad=True), product)
        product.sum().backward()
        return w.grad

    compiled = harness.compile(scaled, scripted)
    torch.testing.assert_close(gradient(compiled), gradient(scaled))


def users(graph: Any, inputs: Any) -> Any:
    from functorch.compile import make_boxed_func
    from torch._dynamo.backends.common import aot_autograd

    compiler = aot_autograd(fw_compiler=lambda graph, _: make_boxed_func(graph.forward))
    return compiler(graph, inputs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt", "inductor", users])
@pytest.mark.parametrize("torchs", [False, True])
def test_whatever_backward_pass_ran_first_the_graph_can_be_retained(
    backend: Any, torchs: bool
) -> None:
    if backend == "onnxrt":
        pytest.importorskip("onnxruntime")
    layers = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Sigmoid())
    x = torch.randn(3, 4)

    def loss(x: torch.Tensor) -> torch.Tensor:
        return layers(x).exp().sum()

    def gradients(run: Callable[..., torch.Tensor]) -> list[Any]:
        found = []
        for kept in ([False], [True, True, False], [False]):
            value = run(x)
            for keep in kept:
                layers.zero_grad()
                value.backward(retain_graph=keep)
                found += [
                    each.grad.clone() for each in layers.parameters() if each.grad is not None
                ]
            with pytest.raises(RuntimeError, match="a second time"):
                value.backward()
        return found

    wrapped = dynamo_ext.optimize(backend)
    compiled = wrapped(loss)
    if torchs:
        compiled = torch.compile(loss, backend=registry.compiler(backend))
    torch.testing.assert_close(gradients(compiled), gradients(loss), rtol=1e-4, atol=1e-5)


def test_a_graph_on_tensors_of_a_subclass_can_be_retained() -> None:
    from torch.testing._internal.two_tensor import TwoTensor

    def loss(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * 2).exp().sum()

    compiled = dynamo_ext.optimize("aot_eager")(loss)
    for keep in (False, True):
        x = TwoTensor(torch.ones(3), torch.ones(3)).requires_grad_()
        compiled(x).backward(retain_graph=keep)
    assert compiled.report().graphs


def test_a_backward_pass_outside_of_dynamo_draws_nothing_again() -> None:
    """``auto`` compiles when a graph has run: the next numbers of a GAN's loop were others."""
    weight = torch.ones(4, 2, requires_grad=True)

    def step() -> tuple[torch.Tensor, ...]:
        real = torch.randn(8, 2) + 2
        made = torch.randn(8, 4) @ weight
        judged = (real @ weight.T).sum() + (made.detach() @ weight.T).tanh().sum()
        return real, made.relu(), judged

    graph, args = captured(step)
    with journals.active(journals.Journal("g0")):
        results = registry.compiler("ts")(graph, args)(*args)
    state = torch.get_rng_state()
    torch.autograd.grad(results[1].sum(), [weight])
    assert torch.equal(torch.get_rng_state(), state)
