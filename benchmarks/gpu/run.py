"""One process of the study: what is there, the tests of some backends, or one model's comparisons.

``benchmarks.gpu`` starts it, so that a crash costs a test or a part of a model's comparison.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import os
import platform
import re
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from benchmarks import workers
from benchmarks.stored_row import StoredRow
from benchmarks.zoo.form import Form, add_arguments
from dynamo_ext.analysis.machine_limit import share_of_limit
from dynamo_ext.backends import registry
from dynamo_ext.measure.machine_limits import measured

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

TEST_SECONDS = 60
_MOST_TEXT = 6000
_BUDGET = 4.0
_RACE = 3.0

_MODES = ("reduce-overhead", "max-autotune")
_LOWERED = ("eager:bf16", "eager:fp16", "inductor:bf16", "inductor:fp16")
_BOUND = "cosine>=0.999"
GROUPS = ("precisions", "backends", "auto", "modes")
"""What is compared at once: what needs longest to compile comes last."""


@dataclass(frozen=True)
class Row(StoredRow):
    """A fact of the machine, a backend, a test, or a backend on a model, as ``part`` says.

    ``seconds`` are those of a test or, by the median, of a call; ``first`` those of the first call.
    ``ratio`` to ``high`` are a speedup over eager with its 95 % interval. ``in_engine`` of
    ``operations`` ran in an engine. ``cosine`` is to float64, and ``share`` that of the device's
    limit in the row's precision; 0.0 where it is not known. ``text`` is the end of a failed
    test's traceback.
    """

    part: str
    name: str
    backend: str = ""
    outcome: str = ""
    reason: str = ""
    seconds: float = 0.0
    first: float = 0.0
    ratio: float = 0.0
    low: float = 0.0
    high: float = 0.0
    in_engine: int = 0
    operations: int = 0
    cosine: float = 0.0
    share: float = 0.0
    text: str = ""


class _Seen:
    """A plugin of pytest's that keeps what was collected and reported."""

    def __init__(self) -> None:
        self.tests: list[str] = []
        self.reports: list[Any] = []
        self.status = 0

    def pytest_collection_modifyitems(self, items: list[Any]) -> None:
        self.tests = [item.nodeid for item in items]

    def pytest_runtest_logreport(self, report: Any) -> None:
        self.reports.append(report)


def _pytest(*words: str) -> _Seen:
    import pytest

    seen = _Seen()
    # A driver's or a newer package's warning is no failure here, and an older pytest lacks some of
    # the options in pyproject.toml.
    usual = ["-o", "addopts=", "--import-mode=importlib", "-p", "no:cacheprovider", "-W", "default"]
    seen.status = pytest.main([*usual, "-o", f"timeout={TEST_SECONDS}", "-q", *words], [seen])
    return seen


def backend_of(test: str) -> str:
    """The backend that a test of ``tests/gpu`` names, if it does."""
    name = test.rpartition("::")[2]
    words = [*re.split(r"\W+", name), *name.split("_")]
    return next((word for word in words if word in registry.OURS), "")


def _here(item: str) -> Iterator[Row]:
    if item == "machine":
        for name, value in _facts().items():
            yield Row("machine", name, reason=value)
    elif item == "tests":
        for test in _pytest("--collect-only", "tests/gpu").tests:
            yield Row("test", test, backend_of(test), "not run")
    else:
        [info] = registry.describe(item)
        found = info.availability
        outcome = "available" if found.available else "unavailable"
        yield Row("backend", item, item, outcome, found.reason or f"{found.version} {found.device}")


def _facts() -> dict[str, str]:
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    triton = driver = "none"
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        triton = importlib.metadata.version("triton")
    with contextlib.suppress(OSError):
        asked = ["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"]
        said = subprocess.run(asked, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603
        driver = (said.stdout.splitlines() or ["not known"])[0]
    return {
        "GPU": gpu,
        "driver": driver,
        "CUDA": torch.version.cuda or "none",
        "torch": torch.__version__,
        "Triton": triton,
        "Python": platform.python_version(),
    }


def _tested(test: str) -> Iterator[Row]:
    seen = _pytest(test)
    told = [each for each in seen.reports if each.failed] or [
        each for each in seen.reports if each.skipped
    ]
    seconds = sum(each.duration for each in seen.reports)
    backend = backend_of(test)
    if not seen.reports:
        yield Row("test", test, backend, "failed", f"pytest ended with {int(seen.status)}.")
    elif not told:
        yield Row("test", test, backend, "passed", seconds=seconds)
    elif told[0].skipped:
        said = told[0].longrepr
        reason = said[2] if isinstance(said, tuple) else f"fails: {told[0].wasxfail}"
        yield Row("test", test, backend, "skipped", reason.removeprefix("Skipped: "))
    else:
        crash = getattr(told[0].longrepr, "reprcrash", None)
        text = told[0].longreprtext[-_MOST_TEXT:]
        reason = crash.message if crash else text.strip().splitlines()[-1]
        yield Row("test", test, backend, "failed", reason[:400], seconds, text=text)
        if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
            try:
                torch.cuda.synchronize()
            except RuntimeError:
                # After an illegal access every later call of CUDA in this process fails.
                os._exit(1)


def _compared(model: str, group: str, form: Form) -> Iterator[Row]:
    import dynamo_ext
    from benchmarks.zoo import MODELS

    options: dict[str, Any] = {}
    if group == "auto":
        bounded = f"auto, {_BOUND}"
        backends = {"auto": "auto", bounded: "auto"}
        options = {"auto.budget": _RACE, f"{bounded}.budget": _RACE, f"{bounded}.accuracy": _BOUND}
    elif group == "precisions":
        backends = {name: name for name in _LOWERED}
    elif group == "modes":
        backends = {f"inductor ({mode})": "inductor" for mode in _MODES}
        options = {f"inductor ({mode}).mode": mode for mode in _MODES}
    else:
        usual = dict.fromkeys(("inductor", "cudagraphs", "ts", *registry.racing()))
        there = [name for name in usual if registry.probe(registry.get(name)).available]
        backends = {name: name for name in there}
    device = torch.device(form.device)
    if measured(device) is None:
        dynamo_ext.measure_machine(device)
    built = MODELS[model].build(form)
    with built.gradients():
        found = dynamo_ext.compare(
            built.module, built.args, backends, kwargs=built.kwargs, budget=_BUDGET, options=options
        )
    record = found.record
    for each in record.candidates:
        contests = [g.contest for g in each.report.graphs] if each.report else []
        won = ", ".join(sorted({contest.winner for contest in contests if contest}))
        left = [fallback.message for fallback in each.report.fallbacks] if each.report else []
        speedup = each.speedup
        yield Row(
            "model",
            f"{model} / {each.name}",
            each.name,
            each.outcome,
            each.reason or (f"chose {won}" if won else " ".join(dict.fromkeys(left))[:200]),
            each.timing.median if each.timing else 0.0,
            each.first_call_seconds,
            *((speedup.ratio, speedup.low, speedup.high) if speedup else (0.0, 0.0, 0.0)),
            in_engine=each.in_engine,
            operations=each.operations,
            cosine=each.accuracy[0].cosine if each.accuracy else 0.0,
            share=share_of_limit(record, each) or 0.0,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the rows."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", choices=("here", "tests", "model"))
    parser.add_argument("--of", default="", help="backend of the tests, or model")
    parser.add_argument("--but", default="", help="backends whose tests are left out, with commas")
    add_arguments(parser)
    given = parser.parse_args(arguments)
    if given.what == "here":
        return workers.go_through(["machine", *registry.names(), "tests"], _here)
    if given.what == "model":
        form = Form.of(given)
        return workers.go_through(GROUPS, lambda group: _compared(given.of, group, form))
    out = set(filter(None, given.but.split(",")))
    tests = _pytest("--collect-only", "tests/gpu").tests
    mine = [
        t for t in tests if (backend_of(t) == given.of if given.of else backend_of(t) not in out)
    ]
    return workers.go_through(mine, _tested)


if __name__ == "__main__":
    sys.exit(main())
