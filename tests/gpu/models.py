"""Small models of the kinds that the GPU backends must run."""

from __future__ import annotations

import torch
from torch import nn


class Block(nn.Module):
    """An encoder block as in BERT: attention, two residuals, two norms."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.feed = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (t.view(shape).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v)
        x = self.first(x + self.out(mixed.transpose(1, 2).reshape(x.shape)))
        return self.second(x + self.feed(x))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64), nn.ReLU())


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 10),
    )


MODELS = {"mlp": (mlp, (8, 64)), "cnn": (cnn, (4, 3, 32, 32)), "bert": (Block, (2, 16, 64))}


def made(name: str, dtype: torch.dtype = torch.float32) -> tuple[nn.Module, torch.Tensor]:
    """A model on the GPU, in eval mode, and an input for it."""
    build, shape = MODELS[name]
    return build().eval().to("cuda", dtype), torch.randn(shape, device="cuda", dtype=dtype)
