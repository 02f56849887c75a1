"""Modes that a captured graph has switched on end where it raises, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

import dynamo_ext
from dynamo_ext.torch_private.entered_modes import forward_of
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable

X, BAD = torch.eye(4), torch.tensor([9])


def state() -> tuple[object, ...]:
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.backends.cuda.flash_sdp_enabled(),
        torch._C._autograd._saved_tensors_hooks_is_enabled(),
    )


def under(mode: Callable[[], Any]) -> Callable[[torch.Tensor, torch.Tensor], torch.Tensor]:
    def function(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
        with mode():
            return torch.embedding(x @ x, index)

    return function


def nested(x: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", torch.bfloat16), torch.no_grad():
        y = x @ x
    with torch.inference_mode():
        z = torch.embedding(y, index)
    with torch.no_grad():
        return z + 1


MODES: dict[str, Callable[..., Any]] = {
    "no gradients": under(torch.no_grad),
    "inference": under(torch.inference_mode),
    "autocast": under(lambda: torch.autocast("cpu", torch.bfloat16)),
    "attention": under(lambda: sdpa_kernel(SDPBackend.MATH)),
    "hooks": under(lambda: torch.autograd.graph.disable_saved_tensors_hooks("none here")),
    "one in another": nested,
}


@pytest.mark.parametrize("name", MODES)
@pytest.mark.parametrize("backend", ["eager", "eager:bf16", "inductor", "onnxrt"])
def test_an_error_between_its_beginning_and_its_end(backend: str, name: str) -> None:
    needs_backend(backend.partition(":")[0])
    before = state()
    compiled = dynamo_ext.optimize(backend)(MODES[name])
    with pytest.raises(IndexError):
        compiled(X, BAD)
    assert state() == before
    compiled(X, torch.tensor([1]))
    with pytest.raises(IndexError):
        compiled(X, BAD)
    assert state() == before


def test_a_graph_without_modes_is_its_own_forward() -> None:
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    assert forward_of(graph) == graph.forward
