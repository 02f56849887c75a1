"""A multi-layer perceptron, and a module whose inputs and outputs are nested dicts."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from benchmarks.zoo.model import Built, Model


def _mlp(width: int, inputs: int, batch: int) -> Built:
    module = nn.Sequential(
        nn.Linear(inputs, width),
        nn.GELU(),
        nn.LayerNorm(width),
        nn.Dropout(0.1),
        nn.Linear(width, width),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(width, 10),
    )
    return Built(module, (torch.randn(batch, inputs),), {})


class DictModule(nn.Module):
    """Named features in, named results out, as data loaders and detectors have them.

    Parameters
    ----------
    width
        Of the hidden layer.
    """

    def __init__(self, width: int) -> None:
        super().__init__()
        self.dense = nn.Linear(16, width)
        self.category = nn.Embedding(100, width)
        self.heads = nn.ModuleDict({"score": nn.Linear(width, 1), "kind": nn.Linear(width, 7)})

    def forward(self, batch: dict[str, Any]) -> dict[str, Any]:
        """Score and classify rows.

        Parameters
        ----------
        batch
            ``features`` with ``dense`` (n, 16) floats and ``category`` (n,) int64, and ``mask``
            (n,) bool.

        Returns
        -------
        dict
            ``score`` (n,), ``kind`` with ``logits`` (n, 7) and ``best`` (n,) int64, ``count``,
            and ``extra``, which is ``None``.
        """
        features = batch["features"]
        hidden = torch.relu(self.dense(features["dense"]) + self.category(features["category"]))
        score = self.heads["score"](hidden).squeeze(-1).masked_fill(~batch["mask"], 0.0)
        logits = self.heads["kind"](hidden)
        return {
            "score": score,
            "kind": {"logits": logits.softmax(-1), "best": logits.argmax(-1)},
            "count": batch["mask"].sum(),
            "extra": None,
        }


def _dicts(width: int, rows: int) -> Built:
    features = {"dense": torch.randn(rows, 16), "category": torch.randint(0, 100, (rows,))}
    batch = {"features": features, "mask": torch.rand(rows) > 0.3}
    return Built(DictModule(width), (batch,), {})


MODELS = (
    Model("MLP", "torch.nn", lambda: _mlp(512, 784, 32), lambda: _mlp(16, 12, 4)),
    Model(
        "dict-in-dict-out",
        "written out here",
        lambda: _dicts(256, 512),
        # Of this size no two classes are so close that rounding to bfloat16 settles which is best.
        lambda: _dicts(12, 5),
    ),
)
