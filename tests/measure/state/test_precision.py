"""The same objects at another precision, and back."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.measure.state.tensor_state import precision


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


def test_a_gradient_that_is_among_the_tensors_comes_back_with_its_owner():
    module = torch.nn.Linear(2, 2)
    module(torch.ones(1, 2)).sum().backward()
    grads = [each.grad for each in module.parameters()]
    values = [each.clone() for each in grads]
    with precision([*module.parameters(), *grads], torch.bfloat16):
        assert [each.grad for each in module.parameters()] == grads
        assert {each.dtype for each in grads} == {torch.bfloat16}
        module(torch.ones(1, 2, dtype=torch.bfloat16)).sum().backward()
    assert all(p.grad is grad for p, grad in zip(module.parameters(), grads, strict=True))
    assert {p.dtype for p in [*module.parameters(), *grads]} == {torch.float32}
    assert all(map(torch.equal, grads, values))
