"""Modules under ``optimize``, copied and pickled: the modules themselves, with nothing shared."""

from __future__ import annotations

import copy
import io
import pickle
import weakref
from typing import Any

import cloudpickle
import pytest
import torch

import dynamo_ext
from tests.api.test_optimize import Net

X = torch.arange(6.0).reshape(2, 3)


class Outer(torch.nn.Module):
    def __init__(self, inner: torch.nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * 2


def saved(module: Any) -> Any:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


WAYS = pytest.mark.parametrize(
    "again", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m)), saved]
)


def nudge(module: torch.nn.Module) -> None:
    with torch.no_grad():
        for weight in module.parameters():
            weight.add_(1)


@WAYS
@pytest.mark.parametrize("used", [False, True])
def test_a_copy_is_the_module_and_shares_nothing(again: Any, *, used: bool) -> None:
    net = Net().eval()
    fast = dynamo_ext.optimize("aot_eager")(net)
    with torch.no_grad():
        expected = fast(X) if used else net(X)
        other = again(fast)
        assert type(other) is Net
        assert list(other.state_dict()) == list(net.state_dict())
        assert torch.equal(other(X), expected)
        nudge(other)
        assert torch.equal(fast(X), expected)
        assert not torch.allclose(other(X), expected)


@WAYS
def test_a_module_that_holds_an_optimized_one(again: Any) -> None:
    outer = Outer(dynamo_ext.optimize("eager")(Net()))
    outer(X)
    other = again(outer)
    assert type(other.inner) is Net
    assert torch.equal(other(X), outer(X))
    nudge(other)
    assert not torch.equal(other(X), outer(X))


def test_a_shallow_copy_shares_the_weights() -> None:
    fast = dynamo_ext.optimize("eager")(Net())
    other = copy.copy(fast)
    assert type(other) is Net
    assert other is not fast._orig_mod
    assert other.fc is fast.fc


@WAYS
def test_a_module_with_a_way_of_its_own_to_be_copied(again: Any) -> None:
    traced = torch.fx.symbolic_trace(torch.nn.Sequential(torch.nn.Linear(3, 2)))
    other = again(dynamo_ext.optimize("eager")(traced))
    assert torch.equal(other(X), traced(X))


def test_a_wrapped_function_goes_to_another_process() -> None:
    def wrapped(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    fast = dynamo_ext.optimize("aot_eager", options={"verify": "no"})(wrapped)
    fast(X)
    other = cloudpickle.loads(cloudpickle.dumps(fast))
    assert torch.equal(other(X), X + 1)


def test_a_wrapper_goes_with_its_last_reference() -> None:
    fast = dynamo_ext.optimize("eager")(Net())
    gone = weakref.ref(fast)
    del fast
    assert gone() is None
