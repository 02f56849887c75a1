"""A network that stops as soon as it is sure: control flow that depends on data."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


class EarlyExit(nn.Module):
    """Blocks with a classifier behind each, as in BranchyNet (arXiv:1709.01686).

    Parameters
    ----------
    width, blocks, labels
        Of the hidden state, how many blocks, and of the output.
    sure
        The probability of the likeliest label at which an exit is taken.
    """

    def __init__(self, width: int, blocks: int, labels: int, sure: float) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(blocks)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(blocks))
        self.exits = nn.ModuleList(nn.Linear(width, labels) for _ in range(blocks))
        self.sure = sure

    def forward(self, features: torch.Tensor) -> dict[str, torch.Tensor | int]:
        """Classify (batch, width) floats; ``logits`` (batch, labels), and the ``exit`` taken."""
        logits = features
        taken = 0
        for number, (block, norm, leave) in enumerate(
            zip(self.blocks, self.norms, self.exits, strict=True)
        ):
            features = features + block(norm(features))
            logits, taken = leave(features), number
            if logits.softmax(-1).amax(-1).mean().item() > self.sure:
                break
            if number % 2 and bool((features.norm(dim=-1) > 1e4).any()):
                features = features / features.norm(dim=-1, keepdim=True)
        return {"logits": logits, "exit": taken}


def _exits(width: int, blocks: int, labels: int, batch: int) -> Built:
    return Built(EarlyExit(width, blocks, labels, 0.9), (torch.randn(batch, width),), {})


MODELS = (
    Model(
        "early exit",
        "arXiv:1709.01686 on perceptrons, written out here, 8 blocks of width 512",
        lambda: _exits(512, 8, 100, 64),
        lambda: _exits(16, 2, 5, 4),
    ),
)
