"""One architecture under one engine, in this process."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

import dynamo_ext
from benchmarks import float64
from benchmarks.architectures.inputs import Inputs
from benchmarks.architectures.make import Made, build, results
from benchmarks.architectures.shrink import Recipe
from benchmarks.engine_facts import EngineRow, engine_facts
from benchmarks.zoo.model import SEED, mapped
from dynamo_ext.numerics import verdict

STEPS = ("first call", "other input", "other batch size", "changed weights")

_SHAKES = 4
"""Times that weights and inputs are changed by a rounding, to see how far results move."""


@dataclass(frozen=True)
class Row(EngineRow):
    """An architecture under an engine.

    ``status`` is ``right``, ``wrong``, ``unsure`` (eager's own result moves as far where weights
    and inputs change by a rounding), ``failed`` (an exception, a crash, a hang). ``step`` is the
    one that went wrong, ``reason`` says how.
    """

    architecture: str
    engine: str
    model: str = ""
    status: str = "right"
    step: str = ""
    reason: str = ""


def measure(made: Made, engine: str) -> Row:
    """Call a small model four times under an engine, and compare each call with eager's.

    Parameters
    ----------
    made
        How the model is made.
    engine
        A name of dynamo_ext's registry.
    """
    row = Row(made.architecture, engine, made.model)
    model = build(made.architecture, made.model, Recipe.named(made.recipe))
    inputs = Inputs(model, made.names)
    compiled = dynamo_ext.optimize(engine, strict=True)(model)
    with torch.no_grad():
        for step, given in _steps(model, inputs):
            expected = results(model, given)
            found = results(compiled, given)
            exact = functools.partial(_exact, model, given)
            wrong = float64.disagreement(found, expected, exact)
            if wrong:
                status = "unsure" if _unsure(model, given, expected) else "wrong"
                row = replace(row, status=status, step=step, reason=wrong)
                break
    return replace(row, **engine_facts(compiled.report()))


def _steps(model: torch.nn.Module, inputs: Inputs) -> Iterator[tuple[str, dict[str, Any]]]:
    yield STEPS[0], inputs.make(2, seed=1)
    yield STEPS[1], inputs.make(2, seed=2)
    yield STEPS[2], inputs.make(3, seed=3)
    _move(model, 0.1, SEED)
    yield STEPS[3], inputs.make(2, seed=1)


def _move(model: torch.nn.Module, by: float, seed: int) -> None:
    """Change each weight by some of itself."""
    draws = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.is_floating_point():
            weight.mul_(1 + by * torch.randn(weight.shape, generator=draws))


def _exact(model: torch.nn.Module, given: dict[str, Any]) -> list[torch.Tensor]:
    return results(copy.deepcopy(model).double(), mapped(given, float64.doubled))


def _unsure(
    model: torch.nn.Module, given: dict[str, Any], expected: Sequence[torch.Tensor]
) -> bool:
    eps = torch.finfo(torch.float32).eps / 2
    for seed in range(_SHAKES):
        moved = copy.deepcopy(model)
        _move(moved, eps, seed)
        if verdict.disagreement(results(moved, mapped(given, float64.rounded(seed))), expected):
            return True
    return False
