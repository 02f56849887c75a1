"""The same code at another floating-point precision, on the same objects."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import torch


@contextlib.contextmanager
def precision(tensors: Iterable[torch.Tensor], dtype: torch.dtype) -> Iterator[None]:
    """Hold every floating tensor in ``dtype`` for the block, as ``Module.to`` would.

    Integer and complex ones stay as they are. Tensors that the code makes itself come in torch's
    default dtype, which stays: random numbers drawn at another precision would be other numbers.
    """
    # A gradient is held so, too, before it is given back: torch takes none of another dtype.
    leaves = {id(each): each for each in _with_gradients(tensors) if each.is_leaf}
    kept = [
        (each, each.data, each.grad)
        for each in leaves.values()
        if each.is_floating_point() and each.dtype != dtype
    ]
    try:
        for tensor, _data, _grad in kept:
            tensor.grad = None
        for tensor, data, _grad in kept:
            tensor.data = data.to(dtype)
        for tensor, _data, grad in kept:
            if grad is not None and grad.dtype == dtype:
                tensor.grad = grad
        yield
    finally:
        for tensor, _data, _grad in kept:
            tensor.grad = None
        for tensor, data, _grad in kept:
            tensor.data = data
        for tensor, _data, grad in kept:
            tensor.grad = grad


def _with_gradients(tensors: Iterable[torch.Tensor]) -> Iterator[torch.Tensor]:
    for tensor in tensors:
        yield tensor
        if tensor.is_leaf and tensor.grad is not None:
            yield tensor.grad
