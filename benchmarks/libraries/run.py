"""One model of a library under one engine, in this process."""

from __future__ import annotations

import argparse
import copy
import functools
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch
from torch.utils._pytree import tree_leaves

import dynamo_ext
from benchmarks import float64
from benchmarks.engine_facts import EngineRow, engine_facts, first_line
from benchmarks.libraries.models import MODELS
from benchmarks.stored_row import ModelRow
from benchmarks.zoo.model import SEED

INSTALLED = Path(__file__).parents[2] / "build" / "libraries" / ".installed"
"""Among the packages, once `make libraries` has put them there."""

RUNS = tuple(f"{engine}: {name}" for engine in ("onnxrt", "openvino") for name in MODELS)
"""Each model under each engine."""

STEPS = (("first input", 4), ("other input", 4), ("other batch size", 6), ("gradients", 4))
"""What each call is about, and its batch."""


@dataclass(frozen=True)
class Row(EngineRow, ModelRow):
    """A model under an engine.

    ``model`` is of ``RUNS``. ``status`` is ``right``, ``wrong``, ``failed`` (an exception that
    eager does not raise) or ``died`` (its process crashed, hung or grew). ``error`` says at which
    step, and how. ``seconds`` are those of the four steps, with compiling.
    """

    model: str
    error: str = ""
    status: str = "died"
    library: str = ""
    seconds: float = 0.0


def measure(run: str, _given: argparse.Namespace) -> Row:
    """Take four steps with a model under an engine, and compare each with eager's."""
    # Behind the project's own packages.
    sys.path.append(str(INSTALLED.parent))
    warnings.simplefilter("ignore")
    engine, _, name = run.partition(": ")
    torch.manual_seed(SEED)
    chosen = MODELS[name]
    model = chosen.build()
    if isinstance(model, torch.nn.Module):
        model.eval()
    compiled = dynamo_ext.optimize(engine, strict=True)(model)
    status, error, seconds = "right", "", 0.0
    for number, (step, batch) in enumerate(STEPS, SEED):
        torch.manual_seed(number)
        inputs = chosen.inputs(batch)
        gradients = step == "gradients"
        expected = results(model, model, inputs, gradients=gradients)
        started = time.perf_counter()
        try:
            found = results(model, compiled, inputs, gradients=gradients)
        except Exception as failure:  # noqa: BLE001 - whatever it is, it is the row's error
            traceback.print_exc()
            status, error = "failed", f"{type(failure).__name__}: {first_line(str(failure))}"
        else:
            seconds += time.perf_counter() - started
            exact = functools.partial(_exact, model, inputs, gradients=gradients)
            error = float64.disagreement(found, expected, exact)
            status = "wrong" if error else "right"
        if error:
            error = f"{step}: {error}"
            break
    return Row(
        run,
        error,
        status,
        f"{chosen.library} {version(chosen.library)}",
        seconds,
        **engine_facts(compiled.report()),
    )


def results(
    model: Callable[..., Any],
    run: Callable[..., Any],
    inputs: Sequence[torch.Tensor],
    *,
    gradients: bool,
) -> list[torch.Tensor]:
    """The tensors that a call of ``run`` gives and, with gradients, those of weights and inputs.

    The gradients are those of the mean square of all that requires gradients. ``run`` is the
    model, or what an engine has made of it.
    """
    # Some models change what they are given.
    given = [tensor.clone() for tensor in inputs]
    with torch.set_grad_enabled(gradients):
        for tensor in given:
            tensor.requires_grad_(gradients and tensor.is_floating_point())
        found = [t for t in tree_leaves(run(*given)) if isinstance(t, torch.Tensor)]
        goals = [t.abs().square().mean() for t in found if t.requires_grad]
        weights = list(model.parameters()) if isinstance(model, torch.nn.Module) else []
        sources = [tensor for tensor in (*weights, *given) if tensor.requires_grad]
        if goals:
            found += torch.autograd.grad(torch.stack(goals).sum(), sources, materialize_grads=True)
    return [tensor.detach() for tensor in found]


def _exact(
    model: Callable[..., Any], inputs: Sequence[torch.Tensor], *, gradients: bool
) -> list[torch.Tensor]:
    exact = copy.deepcopy(model).double() if isinstance(model, torch.nn.Module) else model
    return results(exact, exact, [float64.doubled(t) for t in inputs], gradients=gradients)
