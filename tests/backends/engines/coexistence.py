"""Every backend named on the command line in this one process; prints what became of torch.

``test_together.py`` runs it: engines bring thread pools and libraries of their own, and what one
does to another or to torch shows only in a process that loads them all.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch
from torch import nn

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import registry
from dynamo_ext.numerics import verdict

WORK = 400
"""Side of the matrices whose product is timed."""

BUSY = 0.3
"""Processor seconds over which threads are watched."""


def model() -> tuple[nn.Module, torch.Tensor]:
    """A small network with a convolution, a normalisation and a matrix product."""
    torch.manual_seed(0)
    module = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 32), nn.GELU(), nn.LayerNorm(32), nn.Linear(32, 5),
    )  # fmt: skip
    return module.eval(), torch.randn(2, 3, 8, 8)


def product_seconds(a: torch.Tensor, b: torch.Tensor) -> float:
    """The median of some timings."""
    found = []
    for _ in range(15):
        start = time.perf_counter()
        a @ b
        found.append(time.perf_counter() - start)
    return statistics.median(found)


def tasks() -> int:
    """Threads of this process, as the kernel counts them; 0 where it does not say."""
    return len(list(Path("/proc/self/task").glob("*")))


def main(names: list[str]) -> dict[str, Any]:
    """Run the model under each backend, twice, and torch's own work before, between and after."""
    generator = torch.Generator().manual_seed(1)
    a, b = torch.randn(2, WORK, WORK, generator=generator)
    expected_product = a @ b
    torch.rand(1)
    before = product_seconds(a, b)
    threads = torch.get_num_threads()
    rows: dict[str, Any] = {}
    compiled: dict[str, Any] = {}
    module, x = model()
    # One frame of torch's serves every backend, and each compiles it anew.
    torch._dynamo.config.recompile_limit = 2 * len(names)
    with torch.no_grad():
        expected = module(x)
        for turn in range(2):
            for name in names:
                started = tasks()
                if turn == 0:
                    journal = journals.Journal(name)
                    compiled[name] = _journalled(module, name, journal)
                    rows[name] = {"journal": journal}
                found = [compiled[name](x) for _ in range(3)]
                wrong = [verdict.disagreement([each], [expected]) for each in found]
                row = rows[name]
                row.setdefault("wrong", []).extend(filter(None, wrong))
                row.setdefault("new threads", tasks() - started)
                row.setdefault("torch threads", []).append(torch.get_num_threads())
                row.setdefault("product", []).append(bool(torch.equal(a @ b, expected_product)))
    for row in rows.values():
        journal = row.pop("journal")
        row["engines"] = sorted({p.engine for p in journal.partitions.values()})
        row["failures"] = [
            f"{f.stage}: {f.message}"
            for f in journal.fallbacks.values()
            if f.stage != "unsupported"
        ]
    after = product_seconds(a, b)
    draws = torch.rand(3, generator=torch.Generator().manual_seed(2)).tolist()
    x.requires_grad_()
    module(x).sum().backward()
    return {
        "threads": threads,
        "before": before,
        "after": after,
        "draws": draws,
        "gradient": x.grad is not None and bool(x.grad.isfinite().all()),
        "rows": rows,
        "workers": workers(names),
    }


def running() -> dict[str, float]:
    """Seconds on a processor by thread of this process; nothing where the kernel does not say."""
    found = {}
    for path in Path("/proc/self/task").glob("*/schedstat"):
        try:
            found[path.parent.name] = int(path.read_text().split()[0]) / 1e9
        except OSError:
            continue
    return found


def workers(names: list[str]) -> dict[str, float]:
    """How many threads share the work while each backend multiplies matrices.

    Processor seconds of all threads over those of the busiest one: whether the machine is loaded
    makes no difference to it.
    """
    module = nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512)).eval()
    x = torch.randn(512, 512)
    found = {}
    with torch.no_grad():
        for name in names:
            torch._dynamo.reset()
            compiled = _journalled(module, name, journals.Journal(name))
            for _ in range(3):
                compiled(x)
            before, started = running(), time.process_time()
            while time.process_time() - started < BUSY:
                compiled(x)
            spent = [seconds - before.get(thread, 0.0) for thread, seconds in running().items()]
            if spent:
                found[name] = sum(spent) / max(spent)
    return found


def _journalled(module: nn.Module, name: str, journal: journals.Journal) -> Any:
    compiler = registry.compiler(name, strict=True)

    def backend(graph: Any, inputs: Any) -> Any:
        with journals.active(journal):
            return compiler(graph, inputs)

    return torch.compile(module, backend=backend)


if __name__ == "__main__":
    print("@" + json.dumps(main(sys.argv[1:])))  # noqa: T201
