"""Models under one backend, in this process, and in others that may crash or hang."""

from __future__ import annotations

import copy
import tempfile
import traceback
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks import float64, workers
from benchmarks.models.cuts import Cuts
from benchmarks.models.row import Note, Row
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from benchmarks.zoo.model import Built, mapped, tensors
from benchmarks.zoo.training import learnt, unlearnt
from dynamo_ext.backends import registry
from dynamo_ext.numerics import tolerance, verdict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from benchmarks.workers import Bounds
    from dynamo_ext.records.report import Report

_SHAKES = 8
"""Times that inputs are changed by a rounding, to see how far results move."""


def measure(name: str, backend: str, dtype: str, *, form: Form) -> Row:
    """Run a model three times under a backend and compare each call with eager.

    Parameters
    ----------
    name
        Of a model of the zoo.
    backend
        A name of dynamo_ext's registry.
    dtype
        ``float32`` or ``bfloat16``: of weights and of floating-point inputs.
    form
        At which size, and where.

    Returns
    -------
    Row
        An exception of the module or of Dynamo is a row that failed.
    """
    version = registry.probe(registry.get(backend)).version
    try:
        row = _measured(name, backend, dtype, form=form)
    except Exception as error:  # noqa: BLE001 - whatever it is, it is the row's reason
        traceback.print_exc()
        reason = (str(error).strip().splitlines() or [""])[0]
        row = {"status": "failed", "reason": f"{type(error).__name__}: {reason}"}
    return Row(name, backend, dtype, quick=form.tiny, version=version, **row)


def _measured(name: str, backend: str, dtype: str, *, form: Form) -> dict[str, Any]:
    built = MODELS[name].build(form)
    calls = [(built.args, built.kwargs), *(_other(built, seed) for seed in (1, 2))]
    reference = None
    with built.gradients():
        if dtype != "float32":
            reference = _called(built.module, built.module, calls)
            built, calls = _converted(built, calls, getattr(torch, dtype))
        expected = _called(built.module, built.module, calls)
        cuts = Cuts()
        compiled = dynamo_ext.optimize(backend, strict=True)(built.module)
        with cuts.watched():
            found = _called(built.module, compiled, calls)
    pairs = list(zip(map(tensors, found), map(tensors, expected), strict=True))
    wrong = next(filter(None, (verdict.disagreement(*pair) for pair in pairs)), "")
    row: dict[str, Any] = {"status": "wrong" if wrong else "right", "reason": wrong}
    row.update(_facts(compiled.report(), cuts.switches()))
    absolute, relative = _errors(pairs)
    row |= {"absolute_error": absolute, "relative_error": relative}
    if wrong and reference is None:
        eager, engine = _from_float64(built, calls, expected, found)
        if engine <= tolerance.multiple(torch.float32) * eager:
            said = f"{engine:.1e} from float64, where eager is {eager:.1e}. {wrong}"
            row |= {"status": "right", "reason": said}
        elif built.module.training:
            shaken = _shaken(built, calls, expected)
            if _errors(pairs)[1] <= tolerance.multiple(torch.float32) * shaken:
                said = f"Rounding its inputs moves eager's own by {shaken:.1e}. {wrong}"
                row |= {"status": "right", "reason": said}
    if reference is not None:
        truth = [tensors(output) for output in reference]
        for field, outputs in (("eager_error", expected), ("float32_error", found)):
            row[field] = _errors(list(zip(map(tensors, outputs), truth, strict=True)))[1]
        if (
            wrong
            and row["float32_error"] <= tolerance.multiple(torch.bfloat16) * row["eager_error"]
        ):
            eager, engine = row["eager_error"], row["float32_error"]
            said = f"{engine:.1e} from float32, where eager is {eager:.1e}. {wrong}"
            row |= {"status": "right", "reason": said}
    return row


def _called(
    module: torch.nn.Module, run: Callable[..., Any], calls: Sequence[tuple[Any, Any]]
) -> list[list[Any]]:
    """What each call gives and, of a training step, leaves in the module, which is put back."""
    with unlearnt(module):
        return [[run(*args, **kwargs), *learnt(module)] for args, kwargs in calls]


def _from_float64(
    built: Built, calls: Sequence[tuple[Any, Any]], expected: Sequence[Any], found: Sequence[Any]
) -> tuple[float, float]:
    """How far eager and the engine are from the model in float64, relative to the largest."""
    exact = built._replace(module=copy.deepcopy(built.module))
    exact, doubled = _converted(exact, calls, torch.float64)
    with exact.gradients():
        truth = [tensors(output) for output in _called(exact.module, exact.module, doubled)]
    eager = _errors(list(zip(map(tensors, expected), truth, strict=True)))[1]
    return eager, _errors(list(zip(map(tensors, found), truth, strict=True)))[1]


def _other(built: Built, seed: int) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Arguments of the same shapes with other numbers; integers and masks change places."""
    draws = torch.Generator().manual_seed(seed)

    def change(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_floating_point():
            return torch.randn(tensor.shape, generator=draws).to(tensor.device)
        order = torch.randperm(tensor.numel(), generator=draws).to(tensor.device)
        return tensor.flatten()[order].reshape(tensor.shape)

    return mapped(built.args, change), mapped(built.kwargs, change)


def _converted(
    built: Built, calls: Sequence[tuple[Any, Any]], dtype: torch.dtype
) -> tuple[Built, list[tuple[Any, Any]]]:
    def change(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.to(dtype) if tensor.is_floating_point() else tensor

    changed = [(mapped(args, change), mapped(kwargs, change)) for args, kwargs in calls]
    return built._replace(module=built.module.to(dtype)), changed


def _shaken(built: Built, calls: Sequence[tuple[Any, Any]], expected: Sequence[Any]) -> float:
    """How far eager's own results move where its inputs change by half of their last digit.

    Gradients jump where a ReLU or the maximum of a window turns, so that a training step may have
    several right answers.
    """
    farthest = 0.0
    for seed in range(_SHAKES):
        shake = float64.rounded(seed)
        moved = [(mapped(args, shake), mapped(kwargs, shake)) for args, kwargs in calls]
        with built.gradients():
            found = _called(built.module, built.module, moved)
        pairs = list(zip(map(tensors, found), map(tensors, expected), strict=True))
        farthest = max(farthest, _errors(pairs)[1])
    return farthest


def _errors(pairs: Sequence[tuple[list[Any], list[Any]]]) -> tuple[float, float]:
    """The largest absolute error, and the largest in relation to an output's largest element."""
    absolute = relative = 0.0
    for found, expected in pairs:
        for got, want in zip(found, expected, strict=True):
            if not isinstance(want, torch.Tensor) or not want.numel() or got.shape != want.shape:
                continue
            error = float((got.double() - want.double()).abs().max())
            size = float(want.double().abs().max())
            absolute = max(absolute, error)
            relative = max(relative, error / size if size else error)
    return absolute, relative


def _facts(report: Report, switches: int) -> dict[str, Any]:
    partitions = [p for graph in report.graphs for p in graph.partitions if p.engine != "eager"]
    merged: dict[tuple[str, str, str], int] = {}
    for fallback in report.fallbacks:
        message = f"{fallback.exception}: " if fallback.exception else ""
        message += (fallback.message.splitlines() or [""])[0]
        key = (fallback.stage, fallback.operator, message)
        merged[key] = merged.get(key, 0) + fallback.count
    return {
        "graphs": len(report.graphs),
        "breaks": sum(found.count for found in report.breaks),
        "normalised": any(graph.normalised for graph in report.graphs),
        "operations": sum(graph.normalised for graph in report.graphs),
        "in_engine": sum(part.operations for part in partitions),
        "partitions": len(partitions),
        "switches": switches,
        "compile_seconds": report.compile_seconds,
        "notes": tuple(Note(*key, count=count) for key, count in merged.items()),
    }


def rows(
    models: Sequence[str], backend: str, dtype: str, *, form: Form, bounds: Bounds
) -> Iterator[Row]:
    """A row for each model, those of one process together, unless it ends before its time.

    Parameters
    ----------
    models
        Names of the zoo.
    backend, dtype, form
        As ``measure`` takes them.
    bounds
        Of each process.
    """
    if not models:
        return
    words = ["--here", "--backends", backend, "--dtypes", dtype, *form.words]
    with tempfile.TemporaryDirectory() as folder:
        # Compile seconds are those of a first time.
        caches = {} if form.tiny else {"TORCHINDUCTOR_CACHE_DIR": folder}
        for model, said in workers.rows(
            "models", [*words, "--models", *models], bounds, environment=caches
        ):
            if isinstance(said, workers.Ended):
                yield Row(model, backend, dtype, form.tiny, "failed", said.reason)
            else:
                yield Row.from_dict(said)


def here(chosen: argparse.Namespace) -> int:
    """Print a row for each model, in this process."""
    [backend] = chosen.backends

    def measured(model: str) -> list[Row]:
        torch._dynamo.reset()  # noqa: SLF001 - torch's own way to start afresh
        return [measure(model, backend, chosen.dtypes, form=Form.of(chosen))]

    return workers.go_through(chosen.models, measured)
