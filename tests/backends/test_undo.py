"""A call's tensors and generators, put back after it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_ext.backends.undo import Undo


def test_memory_is_put_back_and_no_write_is_of_record() -> None:
    base = torch.arange(6.0)
    values = [base[1:3], torch.ones(1).expand(4), base[2:], torch.empty(0), 3]
    undo = Undo(values, draws=True)
    drawn = torch.rand(2)
    base.numpy()[:] = 7
    version = base._version
    assert undo.restore()
    assert base.tolist() == list(range(6))
    assert base._version == version
    assert torch.equal(torch.rand(2), drawn)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.t_(),
        lambda x: x.resize_(9, 9),
        lambda x: x.set_(torch.ones(2)),
        lambda x: x.mul_(torch.ones(2, 3, requires_grad=True)),
    ],
)
def test_what_is_more_than_numbers_is_not_put_back(change: Any) -> None:
    x = torch.zeros(2, 3)
    undo = Undo([x], draws=False)
    assert undo.possible
    change(x.add_(1))
    assert not undo.restore()
    assert bool((x != 0).any())


@pytest.mark.parametrize("value", [torch.Generator(), torch.ones(2).to_sparse(), [torch.ones(2)]])
def test_what_is_no_plain_tensor_is_not_kept(value: Any) -> None:
    undo = Undo([value], draws=False)
    assert not undo.possible
    assert not undo.restore()


def test_copies_share_memory_as_the_values_do() -> None:
    base = torch.arange(12.0).reshape(3, 4)
    values = [base[1:].t(), 3, torch.empty(0, 2), base, torch.ones(2)]
    undo = Undo(values, draws=False)
    base += 1
    first, number, empty, second, other = undo.copies() or ()
    assert number == 3
    assert empty.shape == (0, 2)
    assert other.tolist() == [1, 1]
    assert (first.stride(), first.storage_offset()) == ((1, 4), 4)
    assert second.flatten().tolist() == list(range(12))
    second[1, 0] = -1
    assert first[0, 0] == -1
    assert base[1, 0] == 5
    assert undo.restore()


def test_what_was_drawn_is_known() -> None:
    undo = Undo([torch.ones(2)], draws=True)
    assert not undo.drew()
    torch.rand(1)
    assert undo.drew()
    assert not Undo([torch.ones(2)], draws=False).drew()
