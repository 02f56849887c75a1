"""Models that people run, unmodified, with random weights: one file for each family."""

from __future__ import annotations

from benchmarks.zoo import (
    branching,
    classic,
    decoders,
    encoders,
    graphs,
    language,
    patches,
    physics,
    recommend,
    recurrent,
    small,
    speech,
    training,
    vision,
)
from benchmarks.zoo.model import Built, Model

_FAMILIES = (
    *(small, classic, vision, patches),
    *(language, encoders, decoders, speech, recurrent),
    *(graphs, recommend, physics, branching, training),
)

MODELS: dict[str, Model] = {model.name: model for family in _FAMILIES for model in family.MODELS}

__all__ = ["MODELS", "Built", "Model"]
