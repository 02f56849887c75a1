"""The first call of a model in a process: ``python -m benchmarks.start --write docs/start.md``.

In a first process, which finds nothing on disk, and in later ones.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
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
from dynamo_ext.backends import registry

if TYPE_CHECKING:
    from collections.abc import Sequence

NAMES = ("BERT-base", "ResNet-50", "GPT-2", "Swin")
TORCHS = {
    "Dynamo alone": "eager",
    "Dynamo and AOTAutograd": "aot_eager_decomp_partition",
    "torch.compile": "inductor",
}
BACKENDS = (*TORCHS, "onnxrt", "openvino", "tvm")
PAIRS = {f"{name}, {backend}": (name, backend) for name in NAMES for backend in BACKENDS}
LATER = 3


@dataclass(frozen=True)
class Row(ModelRow):
    """Wall-clock seconds of the first call in a first process, and in each later one."""

    model: str
    first: float = 0.0
    later: tuple[float, ...] = ()
    error: str = ""


def measure(pair: str, given: argparse.Namespace) -> Row:
    """The row of a model and a backend."""
    with tempfile.TemporaryDirectory() as folder:
        names = ("DYNAMO_EXT_CACHE", "TORCHINDUCTOR_CACHE_DIR")
        settings = os.environ | dict.fromkeys(names, folder)
        code = "from benchmarks import start; start.call()"
        command = [sys.executable, "-c", code, pair, given.device]
        seconds = [float(_output(command, settings)) for _ in range(1 + LATER)]
    return Row(pair, seconds[0], tuple(seconds[1:]))


def _output(command: Sequence[str], settings: dict[str, str]) -> bytes:
    ran = subprocess.run(command, env=settings, capture_output=True, check=False)  # noqa: S603 - ours
    if ran.returncode:
        message = ran.stderr.decode().splitlines()[-1]
        raise RuntimeError(message)
    return ran.stdout


def call() -> None:
    """Print the seconds of this process's first call; imports of packages come before."""
    name, backend = PAIRS[sys.argv[1]]
    form = Form.of(argparse.Namespace(quick=False, full=False, device=sys.argv[2]))
    built = MODELS[name].build(form)
    # It imports modules when it is called: these imports are not part of a first call.
    torch.compile(torch.sin, backend="eager")
    if backend in TORCHS:
        model = torch.compile(built.module, backend=TORCHS[backend])
    else:
        for package in registry.get(backend).packages:
            __import__(package)
        model = dynamo_ext.optimize(backend)(built.module)
    with torch.no_grad():
        start = time.perf_counter()
        model(*built.args, **built.kwargs)
        seconds = time.perf_counter() - start
    sys.stdout.write(json.dumps(seconds))


_PAGE = """# The first call in a process

Written by `python -m benchmarks.start`: do not edit. Wall-clock seconds of a model's first call
under `no_grad`, with all compiling and the check of the results. Packages are imported before. The
*first* process finds nothing on disk. *Later*: the median of {later} more processes that find what
it has kept, and the lowest and the highest: of every engine the graph that AOTAutograd makes, and
answers about single operations, of `onnxrt` converted programs without weights, too
(`%dynamo cache` shows them), of `torch.compile` its code and the graph. Dynamo traces in each
process.

{rows}

{described}
"""


def document(rows: Sequence[Row], described: str) -> str:
    """The page."""
    lines: list[list[object]] = []
    traced: dict[str, float] = {}
    for row in rows:
        model, _, backend = row.model.partition(", ")
        if row.error:
            lines.append([model, backend, cell(row.error)])
            continue
        later = statistics.median(row.later)
        traced.setdefault(model, later)
        spread = f"{later:.1f} ({min(row.later):.1f}–{max(row.later):.1f})"
        lines.append([model, backend, f"{row.first:.1f}", spread, f"{later / traced[model]:.1f}"])
    header = "model | backend | first process: | later: | later, over Dynamo alone:"
    return _PAGE.format(rows=table(header, lines), described=described, later=LATER)


PART = Part(
    "start",
    "What a model's first call takes in a first and in a later process.",
    list(PAIRS),
    Row,
    document,
    lambda row: f"{row.first:.1f}, later {row.later}",
    measure,
    budget=None,
    timeout=400.0,
)

if __name__ == "__main__":
    os.environ["OMP_WAIT_POLICY"] = "passive"
    workers.command(PART.run)
