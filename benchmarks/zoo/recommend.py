"""Clicks from sparse and dense features, in the manner of DLRM (arXiv:1906.00091)."""

from __future__ import annotations

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


class Recommender(nn.Module):
    """Embedding bags and a perceptron, the dot products of their results, and a perceptron.

    Parameters
    ----------
    tables, rows, width
        How many embedding tables, of how many rows, of which width.
    dense, hidden
        Dense features, and the width of the perceptrons.
    """

    pairs: torch.Tensor

    def __init__(self, tables: int, rows: int, width: int, dense: int, hidden: int) -> None:
        super().__init__()
        bags = (nn.EmbeddingBag(rows, width, mode="sum") for _ in range(tables))
        self.bags = nn.ModuleList(bags)
        self.bottom = _perceptron(dense, hidden, width)
        pairs = (tables + 1) * tables // 2
        self.top = _perceptron(width + pairs, hidden, 1)
        self.register_buffer("pairs", torch.tril_indices(tables + 1, tables + 1, -1))

    def forward(self, dense: torch.Tensor, sparse: torch.Tensor) -> torch.Tensor:
        """Score examples.

        Parameters
        ----------
        dense
            (batch, features) floats.
        sparse
            (tables, batch, many) int64: the rows of each table that an example names.

        Returns
        -------
        torch.Tensor
            (batch,) probabilities.
        """
        bottom = self.bottom(dense)
        bags = [bag(rows) for bag, rows in zip(self.bags, sparse, strict=True)]
        vectors = torch.stack([bottom, *bags], dim=1)
        products = vectors @ vectors.transpose(1, 2)
        pairs = products[:, self.pairs[0], self.pairs[1]]
        features = torch.cat([bottom, pairs], dim=1)
        scores: torch.Tensor = self.top(features).squeeze(1)
        return scores.sigmoid()


def _perceptron(inputs: int, hidden: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        *(nn.Linear(inputs, hidden), nn.ReLU()),
        *(nn.Linear(hidden, hidden // 2), nn.ReLU()),
        nn.Linear(hidden // 2, outputs),
    )


def _dlrm(tables: int, rows: int, width: int, hidden: int, batch: int) -> Built:
    sparse = torch.randint(0, rows, (tables, batch, 4))
    return Built(Recommender(tables, rows, width, 13, hidden), (torch.randn(batch, 13), sparse), {})


MODELS = (
    Model(
        "DLRM",
        "arXiv:1906.00091, 26 tables of 10,000 rows, batch 256",
        lambda: _dlrm(26, 10_000, 64, 512, 256),
        lambda: _dlrm(3, 20, 8, 16, 4),
        batched=False,
    ),
)
