"""One notebook under one backend: each run in a kernel that finds nothing compiled on disk."""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
from nbclient import NotebookClient

from benchmarks.notebooks.cells import REPORT, difference, prefixed, shown
from benchmarks.stored_row import ModelRow, StoredRow

FOLDER = Path(__file__).parents[2] / "build" / "notebooks"
"""Packages and source distributions, once `make notebooks-first-run` has put them there."""

INSTALLED = FOLDER / ".installed"

PATHS = (
    "gpytorch-*/examples/00_Basic_Usage/Hyperparameters.ipynb",
    "gpytorch-*/examples/01_Exact_GPs/GP_Regression_on_Classification_Labels.ipynb",
    "gpytorch-*/examples/04_Variational_and_Approximate_GPs/Non_Gaussian_Likelihoods.ipynb",
    "gpytorch-*/examples/08_Advanced_Usage/Simple_GP_Regression_Derivative_Information_2d.ipynb",
    "sbi-*/docs/advanced_tutorials/15_importance_sampled_posteriors.ipynb",
    "sbi-*/docs/how_to_guide/19_posterior_parameters.ipynb",
)
"""In unpacked source distributions. Chosen before any had run under this package."""

NOTEBOOKS = {Path(path).stem: path for path in PATHS}
MORE = {"eager": 10.0, "onnxrt": 30.0, "auto": 60.0}
"""Seconds of a first run by backend, besides twice those of the plain run."""

RUNS = tuple(f"{backend}: {name}" for backend in MORE for name in NOTEBOOKS)
PLAIN_RUNS = 2
"""At least so many: what two plain runs put out differently is not compared."""

CELL_SECONDS = 600
"""After these a cell is interrupted."""

_BEFORE = f"""
import os, sys, torch
sys.path.append({str(FOLDER / "site-packages")!r})
torch.manual_seed(0)
print(os.getpid())
"""
_AFTER = f"""
import dataclasses, json
sys.path.append({str(Path(__file__).parents[2])!r})
from benchmarks.first_run.row import Facts
found = {{name: value for name, value in globals().items() if name.startswith("{REPORT}")}}
print(json.dumps({{n[{len(REPORT)}:]: dataclasses.asdict(Facts.of(r)) for n, r in found.items()}}))
"""


@dataclass(frozen=True)
class Run(StoredRow):
    """One run of a notebook: seconds and texts by cell, CPU seconds, and facts of reports."""

    seconds: tuple[float, ...]
    texts: tuple[str, ...]
    cpu: float
    reports: dict[str, dict[str, Any]]


@dataclass(frozen=True)
class Row(ModelRow):
    """A notebook under a backend.

    ``model`` is of ``RUNS``. ``plain`` and ``first`` are medians of wall-clock seconds, with their
    CPU seconds. ``under`` of ``cells`` had the magic, ``compared`` of them the same texts in each
    plain run. ``slowest`` names the cell that gained most seconds, and says what its report says.
    """

    model: str
    error: str = ""
    library: str = ""
    plain: float = 0.0
    first: float = 0.0
    plain_cpu: float = 0.0
    first_cpu: float = 0.0
    cells: int = 0
    under: int = 0
    compared: int = 0
    differences: tuple[str, ...] = ()
    slowest: str = ""

    @property
    def limit(self) -> float:
        """Seconds that the first run may take."""
        return 2 * self.plain + MORE[self.model.partition(": ")[0]]


def measure(run: str, asked: argparse.Namespace) -> Row:
    """Run a notebook plainly, if it has not been here, and under a backend; compare the texts."""
    backend, _, name = run.partition(": ")
    path = next(FOLDER.glob(NOTEBOOKS[name]))
    texts = [
        cell.source for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"
    ]
    given = [prefixed(text, backend, number) for number, text in enumerate(texts)]
    plain = _plain_runs(name, texts, max(asked.rounds, PLAIN_RUNS))
    first = [execute(given, "%load_ext dynamo_ext") for _ in range(asked.rounds)]
    same = [n for n in range(len(texts)) if len({run.texts[n] for run in plain}) == 1]
    found = {
        f"cell {n + 1}: {wrong}": None
        for n in same
        for run in first
        if (wrong := difference(run.texts[n], plain[0].texts[n]))
    }
    gains = [a - b for a, b in zip(first[0].seconds, plain[0].seconds, strict=True)]
    worst = gains.index(max(gains))
    facts = first[0].reports.get(str(worst), {})
    said = " ".join([facts.get("said", "No report."), *facts.get("fallbacks", ())[:2]])
    return Row(
        run,
        library=path.relative_to(FOLDER).parts[0].replace("-", " "),
        plain=statistics.median(sum(each.seconds) for each in plain),
        first=statistics.median(sum(each.seconds) for each in first),
        plain_cpu=statistics.median(each.cpu for each in plain),
        first_cpu=statistics.median(each.cpu for each in first),
        cells=len(texts),
        under=sum(a != b for a, b in zip(given, texts, strict=True)),
        compared=len(same),
        differences=tuple(found),
        slowest=f"Cell {worst + 1}, {gains[worst]:.1f} s more: {said}",
    )


def _plain_runs(name: str, texts: Sequence[str], rounds: int) -> list[Run]:
    """The plain runs, kept beside the notebooks: each backend is compared with the same ones."""
    kept = FOLDER / f"plain-{name}.json"
    runs = [Run.from_dict(each) for each in json.loads(kept.read_text())] if kept.exists() else []
    while len(runs) < rounds:
        runs.append(execute(texts))
        kept.write_text(json.dumps([run.to_dict() for run in runs]), encoding="utf-8")
    return runs


def execute(texts: Sequence[str], load: str = "") -> Run:
    """Run cells in a new kernel, in an empty folder, with the same random numbers each time.

    Loading the extension counts as a part of the first cell.
    """
    made = [nbformat.v4.new_code_cell(text) for text in (_BEFORE, load, *texts, _AFTER)]
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            nbformat.v4.new_notebook(cells=made),
            timeout=CELL_SECONDS,
            interrupt_on_timeout=True,
            allow_errors=True,
            kernel_name="python3",
            extra_arguments=["--log-level=40"],
            resources={"metadata": {"path": folder}},
        )
        ours = {"DYNAMO_EXT_CACHE": f"{folder}/ours", "TORCHINDUCTOR_CACHE_DIR": f"{folder}/its"}
        seconds = []
        with client.setup_kernel(env={**os.environ, **ours}):
            client.execute_cell(made[0], 0)
            kernel = psutil.Process(int(shown(made[0].outputs)))
            before = _cpu(kernel)
            for number, cell in enumerate(made[1:-1], 1):
                started = time.perf_counter()
                client.execute_cell(cell, number)
                seconds.append(time.perf_counter() - started)
            cpu = _cpu(kernel) - before
            if load:
                client.execute_cell(made[-1], len(made) - 1)
    seconds[:2] = [sum(seconds[:2])]
    reports = json.loads(shown(made[-1].outputs)) if load else {}
    return Run(tuple(seconds), tuple(shown(cell.outputs) for cell in made[2:-1]), cpu, reports)


def _cpu(kernel: psutil.Process) -> float:
    used = kernel.cpu_times()
    return used.user + used.system + used.children_user + used.children_system
