"""All CPU backends in one process, in any order: each right, and torch as it was."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.backends import BACKENDS, ENGINES, without
from dynamo_ext.backends import registry

SCRIPT = Path(__file__).parent / "coexistence.py"
ROOT = Path(__file__).parents[3]
THREADS = 2

BOUNDED = ("ts", "ofi", "onnxrt", "openvino")
"""Engines that start computing threads only; others have some for compiling, too."""


def here() -> list[str]:
    return [
        name for name in (*BACKENDS, "xla_trivial") if registry.probe(registry.get(name)).available
    ]


def shuffled(names: list[str]) -> list[str]:
    return random.Random(4).sample(names, len(names))


ORDERS = {"as listed": list, "reversed": lambda names: names[::-1], "shuffled": shuffled}


@pytest.fixture(scope="module", params=list(ORDERS))
def result(request: pytest.FixtureRequest) -> dict[str, Any]:
    return run(ORDERS[request.param](here()), THREADS)


def run(names: list[str], threads: int) -> dict[str, Any]:
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "TF_CPP_MIN_LOG_LEVEL": "3"}
    # TVM's count of this process, which was settled when somebody asked whether it is here.
    environment.pop("TVM_NUM_THREADS", None)
    done = subprocess.run(
        [sys.executable, str(SCRIPT), *names],
        capture_output=True, text=True, timeout=280, check=False, env=environment, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 0, f"{names}: {done.returncode}\n{done.stderr[-3000:]}"
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("@")]
    return json.loads(line[1:])


def test_every_backend_is_right(result: dict[str, Any]) -> None:
    assert {name: row["wrong"] for name, row in result["rows"].items() if row["wrong"]} == {}


def test_no_engine_gives_way_to_eager(result: dict[str, Any]) -> None:
    rows = result["rows"]
    assert {name: row["failures"] for name, row in rows.items() if row["failures"]} == {}
    ran = {name for name, row in rows.items() if name in row["engines"]}
    assert ran == set(rows) & {*ENGINES, "xla_trivial"}


def test_torchs_own_threads_and_results_stay(result: dict[str, Any]) -> None:
    assert result["threads"] == THREADS
    for name, row in result["rows"].items():
        assert row["torch threads"] == [THREADS, THREADS], name
        assert row["product"] == [True, True], name
    assert result["draws"] == torch.rand(3, generator=torch.Generator().manual_seed(2)).tolist()
    assert result["gradient"]


def test_engines_start_no_more_threads_than_torch_has(result: dict[str, Any]) -> None:
    rows = result["rows"]
    started = {name: rows[name]["new threads"] for name in BOUNDED if name in rows}
    # The first one to compute may wake torch's own worker, too.
    assert {name: count for name, count in started.items() if count > THREADS + 1} == {}


@pytest.mark.parametrize("name", without("ts", "ofi", "onnx2tf"))
def test_an_engine_computes_on_torchs_thread_count(name: str) -> None:
    if name not in here():
        pytest.skip(f"{name} is not here")
    # By itself: in one process with all the others, threads that wait by spinning count too.
    (count,) = run([name], 1)["workers"].values()
    # Whoever hands the work over counts a little; a second worker would make it 2.
    assert count < 1.5
