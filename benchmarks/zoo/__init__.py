"""Models that people run, unmodified, with random weights: one file for each family."""

from __future__ import annotations

from benchmarks.zoo import (
    branching,
    classic,
    graphs,
    images,
    physics,
    recommend,
    recurrent,
    small,
    text,
    training,
)
from benchmarks.zoo.model import Built, Model

_FAMILIES = (
    *(small, classic, images, text, recurrent),
    *(graphs, recommend, physics, branching, training),
)

MODELS: dict[str, Model] = {model.name: model for family in _FAMILIES for model in family.MODELS}

__all__ = ["MODELS", "Built", "Model"]
