"""Copies of one backend on one model, and of ``auto`` that may choose it; prints a JSON line.

``benchmarks.copies`` starts it.
"""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks import one_process
from benchmarks.stored_row import StoredRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from dynamo_ext.auto.backend import BACKEND
from dynamo_ext.measure.settling import settle

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.zoo.model import Built

MODEL_BACKENDS = {
    "MobileNetV2": "onnxrt",
    "ELECTRA": "tvm",
    "T5 encoder": "tvm",
    "BART": "tvm",
}
"""Where ``auto`` was furthest behind the backend that it had chosen, and that backend."""

ALONE, CHOSEN = 3, 3
"""Copies of the backend by itself, beside the one that ``compare`` makes, and of ``auto``."""

_SETTLING = 60.0
_RACE = 3.0


@dataclass(frozen=True)
class Copy:
    """One copy's speedup over eager, with its 95 % interval; ``chose`` is what ``auto`` took."""

    name: str
    ratio: float
    low: float
    high: float
    chose: str = ""


@dataclass(frozen=True)
class Row(StoredRow):
    """One model. ``eager_seconds`` is eager's median."""

    model: str
    backend: str = ""
    eager_seconds: float = 0.0
    copies: tuple[Copy, ...] = ()
    error: str = ""


def measure(name: str, *, form: Form, budget: float) -> Row:
    """Compile copies of a model in this process, and time them in one interleaved schedule.

    Parameters
    ----------
    name
        One of ``MODEL_BACKENDS``.
    form
        At which size, and where.
    budget
        Seconds for the timing.
    """
    backend = MODEL_BACKENDS[name]
    built = MODELS[name].build(form)
    beside: dict[str, Callable[..., Any]] = {}
    chose: dict[str, str] = {}
    with torch.no_grad():
        for index in range(ALONE):
            beside[f"{backend} {index + 2}"] = _called(built, backend)
        options = {"candidates": backend, "budget": _RACE}
        for index in range(CHOSEN):
            called = _called(built, "auto", options)
            settle(BACKEND, _call(called, built), _SETTLING)
            beside[f"auto {index + 1}"] = called
            contests = [graph.contest for graph in called.report().graphs]
            winners = dict.fromkeys(each.winner for each in contests if each is not None)
            chose[f"auto {index + 1}"] = ", ".join(winners) or "no graph"
        found = dynamo_ext.compare(
            built.module, built.args, [backend], kwargs=built.kwargs, budget=budget, beside=beside
        )
    eager = found["eager"].timing
    copies = []
    for each in (backend, *beside):
        row = found[each]
        if row.speedup is None:
            return Row(name, backend, error=f"{each}: {row.outcome}. {row.reason}")
        gain = row.speedup
        copies.append(Copy(each, gain.ratio, gain.low, gain.high, chose.get(each, "")))
    return Row(name, backend, eager.median if eager else 0.0, tuple(copies))


def _called(built: Built, backend: str, options: dict[str, Any] | None = None) -> Any:
    """A copy of the model of its own, compiled and warm: one module would share its code."""
    compiled = dynamo_ext.optimize(backend, options=options)(copy.deepcopy(built.module))
    for _ in range(3):
        compiled(*built.args, **built.kwargs)
    return compiled


def _call(called: Callable[..., Any], built: Built) -> Callable[[], Any]:
    return lambda: called(*built.args, **built.kwargs)


def main() -> None:
    """Print the row of one model."""
    about = "Copies of one backend on one model."
    given = one_process.parser(about, 30.0, MODEL_BACKENDS).parse_args()
    one_process.tell(measure(given.model, form=Form.of(given), budget=given.budget).to_dict())


if __name__ == "__main__":
    main()
