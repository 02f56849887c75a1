"""What is wrong with results, where the same in float64 or with other rounding says so, too."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import torch

from dynamo_ext.numerics import verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def disagreement(
    found: Sequence[torch.Tensor],
    expected: Sequence[torch.Tensor],
    exact: Callable[[], Sequence[torch.Tensor]],
) -> str:
    """How an engine's results are farther from the exact ones than eager's; nothing where not.

    ``exact`` gives those of float64. It is called where the two disagree, and may fail.
    """

    def higher() -> Sequence[torch.Tensor]:
        # Not every model runs in float64.
        with contextlib.suppress(Exception):
            return exact()
        return ()

    return verdict.disagreement(found, expected, higher)


def doubled(tensor: torch.Tensor) -> torch.Tensor:
    """An input in float64, where it is a floating-point one."""
    return tensor.double() if tensor.is_floating_point() else tensor


def rounded(seed: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """What changes floating-point inputs by half of their last digit, as rounding does."""
    draws = torch.Generator().manual_seed(seed)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if not tensor.is_floating_point():
            return tensor
        noise = torch.randn(tensor.shape, generator=draws).to(tensor.device)
        return tensor * (1 + torch.finfo(tensor.dtype).eps / 2 * noise)

    return change
