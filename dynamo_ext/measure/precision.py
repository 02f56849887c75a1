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

    Parameters
    ----------
    tensors
        Parameters, buffers, inputs: of any shape. Integer and complex ones stay as they are.
    dtype
        ``float64``, ``float32``, ``float16`` or ``bfloat16``.

    Notes
    -----
    Tensors that the code makes itself come in torch's default dtype, which stays: random numbers
    drawn at another precision would be other numbers.
    """
    kept: list[tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]] = []
    try:
        for tensor in tensors:
            if not tensor.is_floating_point() or tensor.dtype == dtype or not tensor.is_leaf:
                continue
            kept.append((tensor, tensor.data, tensor.grad))
            # A gradient of another dtype would keep the data from changing.
            tensor.grad = None
            tensor.data = tensor.data.to(dtype)
        yield
    finally:
        for tensor, data, grad in kept:
            tensor.grad = None
            tensor.data = data
            tensor.grad = grad
