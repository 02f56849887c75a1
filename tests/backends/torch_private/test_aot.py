"""Gradients of inputs that a graph changes where autograd does not look: eager's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

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
