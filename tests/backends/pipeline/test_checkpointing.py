"""Activation checkpoints draw the same random numbers again, as they do in eager."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from dynamo_ext.backends import registry
from tests.needs import needs_backend

Harness = Any


def under(harness: Harness, engine: str, function: Any) -> Any:
    needs_backend(engine)
    options: dict[str, Any] = {} if registry.get(engine).whole_graph else {"min_partition": 1}
    if engine == "auto":
        # Which backend wins is not what is tested.
        options = {"candidates": "ts+aot_eager", "budget": 0.1}
    return harness.compile(function, registry.compiler(engine, options))


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("engine", ["eager", "aot_eager", "ts", "onnxrt", "tvm", "auto"])
def test_a_dropout_s_mask_is_that_of_the_forward(
    harness: Harness, engine: str, *, reentrant: bool
) -> None:
    first, last = nn.Linear(4, 8), nn.Linear(8, 8)
    block = nn.Sequential(first, nn.Tanh(), last, nn.Dropout(0.5))

    def run(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(block, x, use_reentrant=reentrant)

    compiled = under(harness, engine, run)
    for _ in range(3):
        x = torch.randn(3, 4, requires_grad=True)
        y = compiled(x)
        y.sum().backward()
        kept = (y != 0).float() * 2
        hidden = first(x).tanh()
        wanted = (kept @ last.weight * (1 - hidden**2)) @ first.weight
        torch.testing.assert_close(x.grad, wanted)


def test_in_eager_all_is_as_without_compiling(harness: Harness) -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))
    twin = copy.deepcopy(model)
    compiled = under(harness, "eager", lambda x: checkpoint(model, x, use_reentrant=False))
    for seed in range(2):
        x = torch.randn(6, 4)
        torch.manual_seed(seed)
        compiled(x).square().sum().backward()
        state = torch.get_rng_state()
        torch.manual_seed(seed)
        checkpoint(twin, x, use_reentrant=False).square().sum().backward()
        assert torch.equal(torch.get_rng_state(), state)
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad)
        for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
            torch.testing.assert_close(mine, theirs)
