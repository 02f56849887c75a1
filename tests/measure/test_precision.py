"""The same objects at another precision, and back."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.measure.precision import precision


def test_floating_leaves_are_held_in_it_and_come_back():
    module = torch.nn.Linear(2, 2)
    ids, weight = torch.tensor([1]), module.weight.detach().clone()
    module(torch.ones(1, 2)).sum().backward()
    grad = module.weight.grad
    with precision([*module.parameters(), ids], torch.float64):
        assert module.weight.dtype is torch.float64
        assert module(torch.ones(1, 2, dtype=torch.float64)).dtype is torch.float64
        assert ids.dtype is torch.int64
    assert module.weight.dtype is torch.float32
    assert torch.equal(module.weight, weight)
    assert module.weight.grad is grad


def test_it_comes_back_after_an_error():
    tensor = torch.ones(2)

    def fail():
        with precision([tensor], torch.bfloat16):
            assert tensor.dtype is torch.bfloat16
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    assert tensor.dtype is torch.float32
