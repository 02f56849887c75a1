"""Tensors as an engine's code reads memory, in as few copies as can be."""

import torch

ALIGNMENT = 64
"""Bytes to which torch aligns what it allocates: engines' code may load whole vectors."""


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor itself where its memory, row by row, is its elements; otherwise a copy.

    It has no gradient, and no lazy negation, which an engine that reads memory would not see.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    return tensor if tensor.is_contiguous() else tensor.contiguous()


def aligned(tensor: torch.Tensor) -> torch.Tensor:
    """As ``plain``, and at an address that is a multiple of ``ALIGNMENT``."""
    tensor = plain(tensor)
    return tensor.clone() if tensor.data_ptr() % ALIGNMENT else tensor
