"""Batches of another size: ``python -m benchmarks.batch_sizes --write docs/batch-sizes.md``.

Each model under each backend in a process of its own.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

import dynamo_ext
from benchmarks import workers
from benchmarks.markdown import cell, table
from benchmarks.part import Part
from benchmarks.stored_row import ModelRow
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import Form
from benchmarks.zoo.model import mapped, tensors
from dynamo_ext.backends.support import support_cache
from dynamo_ext.numerics import verdict

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

NAMES = (
    "ResNet-18", "MobileNetV2", "EfficientNet", "ConvNeXt", "SqueezeNet",
    "DeiT", "Swin", "SegFormer", "BERT-base", "GPT-2",
)  # fmt: skip
TRACING = "torch's tracing alone"
BACKENDS = ("onnxrt", "openvino", TRACING)
PAIRS = {f"{name}, {backend}": (name, backend) for name in NAMES for backend in BACKENDS}


@dataclass(frozen=True)
class Row(ModelRow):
    """The first call's seconds with a batch of 1, of 2 and of 3: wall-clock and processor."""

    model: str
    seconds: tuple[float, ...] = ()
    processor: tuple[float, ...] = ()
    error: str = ""


def measure(pair: str, given: argparse.Namespace) -> Row:
    """The row of a model and a backend; nothing on disk is used that was compiled before."""
    name, backend = PAIRS[pair]
    built = MODELS[name].build(Form.of(given))
    if backend == TRACING:
        model = torch.compile(built.module, backend="aot_eager_decomp_partition")
    else:
        model = dynamo_ext.optimize(backend)(built.module)
    seconds, processor = [], []
    with tempfile.TemporaryDirectory() as folder, torch.no_grad():
        os.environ["DYNAMO_EXT_CACHE"] = folder
        for batch in (1, 2, 3):

            def larger(tensor: torch.Tensor, batch: int = batch) -> torch.Tensor:
                return torch.cat([tensor[:1]] * batch)

            args, kwargs = mapped(built.args, larger), mapped(built.kwargs, larger)
            expected = built.module(*args, **kwargs)
            wall, used = time.perf_counter(), time.process_time()
            found = model(*args, **kwargs)
            seconds.append(time.perf_counter() - wall)
            processor.append(time.process_time() - used)
            wrong = verdict.disagreement(tensors(found), tensors(expected))
            if wrong:
                return Row(pair, error=wrong)
        # Else they would be written at the end of the process, when the folder is gone.
        support_cache.clear()
    return Row(pair, tuple(seconds), tuple(processor))


_PAGE = """# Batches of another size

Written by `python -m benchmarks.batch_sizes`: do not edit.

A model is called with a batch of 1, then of 2, then of 3. The second size compiles it again, with
sizes that may change. Each model has a process of its own under each backend, and finds nothing
compiled on disk, nor any answer about an operation. Cells are seconds of the call: of the
processor, and in brackets wall-clock. The ratio is the second size's over the first's, of the
processor's seconds. Tracing alone is `torch.compile(backend="aot_eager_decomp_partition")`, which
makes the graphs that engines are given and compiles none: its ratio is what torch's symbolic sizes
cost, and its second call is a part of each engine's.

{rows}

{described}
"""


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    good = [row for row in rows if not row.error]
    ratios = [row.processor[1] / row.processor[0] for row in good]
    compiled = [ratio for row, ratio in zip(good, ratios, strict=True) if TRACING not in row.model]
    lines: list[list[object]] = []
    for row, ratio in zip(good, ratios, strict=True):
        pairs = zip(row.processor, row.seconds, strict=True)
        lines.append([row.model, *(f"{p:.2f} ({s:.2f})" for p, s in pairs), f"{ratio:.2f}"])
    if compiled:
        middle = statistics.median(compiled)
        lines.append(["**median of engines**", "", "", "", f"**{middle:.2f}**"])
    lines += [[row.model, cell(row.error)] for row in rows if row.error]
    found = table("model, backend | batch of 1: | of 2: | of 3: | ratio:", lines)
    return _PAGE.format(rows=found, described=described)


PART = Part(
    "batch_sizes",
    "What it costs that a model gets a batch of another size.",
    list(PAIRS),
    Row,
    document,
    lambda row: ", ".join(f"{used:.2f}" for used in row.processor),
    measure,
    budget=None,
    timeout=300.0,
)

if __name__ == "__main__":
    # The processor's seconds count, and threads that spin while they wait use them.
    os.environ["OMP_WAIT_POLICY"] = "passive"
    workers.command(PART.run)
