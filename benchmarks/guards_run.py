"""What checking before each call costs a model, beside who checks nothing; prints a JSON line.

``benchmarks.guards`` starts it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

import dynamo_ext
from benchmarks import one_process
from benchmarks.peers import peers
from benchmarks.stored_row import StoredRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from benchmarks.zoo.model import Built

ONNX, FREEZE = "ONNX Runtime, NumPy", "torch.jit.freeze"

MODEL_RIVALS = {
    "SqueezeNet": ("onnxrt", ONNX),
    "MNASNet": ("onnxrt", ONNX),
    "ResNet-18": ("onnxrt", ONNX),
    "MobileNetV2": ("onnxrt", ONNX),
    "BERT-base": ("onnxrt", ONNX),
    "DLRM": ("ofi", FREEZE),
}
"""A backend, and the peer that runs the same engine with nothing before it.

Where peers are ahead, and one large model.
"""

SKIPPED = "guards skipped"


@dataclass(frozen=True)
class Speedup:
    """Over eager, with its 95 % interval."""

    ratio: float
    low: float
    high: float


@dataclass(frozen=True)
class Row(StoredRow):
    """One model.

    ``weights`` are its parameters and buffers, ``guards`` Dynamo's conditions; all seconds are
    those of one call: eager's median, the least that checking the guards took, one call after
    another (``warm``), and the median over rounds of what skipping them saved (``saved``).
    """

    model: str
    backend: str = ""
    peer: str = ""
    weights: int = 0
    guards: int = 0
    eager_seconds: float = 0.0
    warm: float = 0.0
    saved: float = 0.0
    guarded: Speedup | None = None
    skipped: Speedup | None = None
    rival: Speedup | None = None
    error: str = ""


def measure(name: str, *, form: Form, budget: float) -> Row:
    """Time one compiled model with its guards and without most of them, and its peer.

    Parameters
    ----------
    name
        One of ``MODEL_RIVALS``.
    form
        At which size, and where.
    budget
        Seconds for the timing.
    """
    backend, peer = MODEL_RIVALS[name]
    built = MODELS[name].build(form)
    with torch.no_grad():
        fast = dynamo_ext.optimize(backend)(built.module)
        for _ in range(3):
            fast(*built.args, **built.kwargs)
        frames = fast.report().frames
        beside = {"guards": fast, SKIPPED: _skipping(fast), peer: _alone(built, peer)}
        # The backend's own row is another copy, and copies of one thing differ.
        found = dynamo_ext.compare(
            built.module, built.args, [backend], kwargs=built.kwargs, budget=budget, beside=beside
        )
    speedups: dict[str, Speedup] = {}
    for each in beside:
        row = found[each]
        if row.speedup is None:
            return Row(name, backend, peer, error=f"{each}: {row.outcome}. {row.reason}")
        speedups[each] = Speedup(row.speedup.ratio, row.speedup.low, row.speedup.high)
    samples = {each: found[each].timing for each in ("eager", "guards", SKIPPED)}
    eager, guarded, skipped = (samples[each] for each in ("eager", "guards", SKIPPED))
    if eager is None or guarded is None or skipped is None:
        return Row(name, backend, peer, error="It was not timed.")
    pairs = zip(guarded.samples, skipped.samples, strict=False)
    return Row(
        name,
        backend,
        peer,
        weights=sum(1 for _ in (*built.module.parameters(), *built.module.buffers())),
        guards=sum(frame.guards for frame in frames),
        eager_seconds=eager.median,
        warm=sum(frame.guard_seconds for frame in frames),
        saved=statistics.median(a - b for a, b in pairs),
        guarded=speedups["guards"],
        skipped=speedups[SKIPPED],
        rival=speedups[peer],
    )


def _skipping(fast: Callable[..., Any]) -> Callable[..., Any]:
    """The same compiled code, called as after ``torch.compiler.set_stance``."""

    def call(*args: Any, **kwargs: Any) -> Any:
        with torch.compiler.set_stance(skip_guard_eval_unsafe=True):
            return fast(*args, **kwargs)

    return call


def _alone(built: Built, peer: str) -> Callable[..., Any]:
    found: Mapping[str, Callable[..., Any]] = peers(built, [peer])
    return found[peer]


def main() -> None:
    """Print the row of one model."""
    about = "What checking before each call costs a model."
    given = one_process.parser(about, 30.0, MODEL_RIVALS).parse_args()
    one_process.tell(measure(given.model, form=Form.of(given), budget=given.budget).to_dict())


if __name__ == "__main__":
    main()
