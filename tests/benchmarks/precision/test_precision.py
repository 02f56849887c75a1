"""Lower precisions over the zoo: a tiny model for real."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.precision import __main__ as precision
from benchmarks.precision import run
from benchmarks.precision.run import BOUNDED, Peer
from dynamo_ext.backends import disk_cache
from dynamo_ext.measure import machine_limits

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.sweep
def test_a_tiny_one_for_real(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    monkeypatch.setattr(machine_limits, "_SECONDS", 0.001)
    monkeypatch.setattr(run, "backends", lambda _model: ["ts", "eager:bf16"])
    monkeypatch.setattr(run, "PEERS", {"mine": Peer("bf16", lambda built: built.module)})
    given = precision.PART.parser().parse_args(["--quick", "--budget", "0.5"])
    row = run.measured("MLP", given)
    assert dict(row.limits)["float32"] > 0
    assert row.operations > 0
    cases = {case.name: case for case in row.cases}
    assert list(cases) == ["ts", "eager:bf16", "auto", BOUNDED, "mine"]
    assert cases["ts"].share > 0
    assert cases["mine"].outcome == "measured"
