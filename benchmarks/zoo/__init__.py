"""Models that people run, unmodified, with random weights: one file for each family."""

from __future__ import annotations

from benchmarks.zoo import graphs, language, recurrent, small, speech, vision
from benchmarks.zoo.model import Built, Model

MODELS: dict[str, Model] = {
    model.name: model
    for family in (small, vision, language, speech, recurrent, graphs)
    for model in family.MODELS
}

__all__ = ["MODELS", "Built", "Model"]
