"""Lower precisions over the zoo: a tiny model for real, and the page."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

from benchmarks.peers import peers
from benchmarks.precision import __main__ as precision
from benchmarks.precision import run
from benchmarks.precision.run import BOUNDED, Case, Peer, Row
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import TINY
from dynamo_ext.backends import disk_cache
from dynamo_ext.measure import machine_limits

if TYPE_CHECKING:
    from pathlib import Path

ROW = Row(
    "BERT-base",
    0.1,
    20_000_000_000,
    400_000_000,
    (("float32", 0.08), ("bf16", 0.04)),
    (
        Case("onnxrt", "measured", "float32", 1.2, 1.1, 1.3, 1.0, 130.0, 0.96),
        Case(
            "eager:bf16", "measured", "bf16", 2.0, 1.9, 2.1, 0.99999, 50.0, 0.8, 0.9, time_share=0.7
        ),
        Case("onnxrt:int8", "wrong", "int8", reason="its error is 0.2 of its size."),
        Case(BOUNDED, "measured", "float32", 1.9, 1.8, 2.0, 0.99999, 50.0),
        Case("autocast", "measured", "bf16", 1.6, 1.5, 1.7, 0.99999, 50.0),
    ),
)


def test_the_page() -> None:
    step = Row("MLP, training step", cases=(Case("eager:bf16", "measured", "bf16", 1.4),))
    rows = [ROW, Row("MLP", error="It had no result after 1 s."), step]
    page = precision.document(rows, "Measured with: a machine.")
    assert "| BERT-base | 100.00 | 20 GFLOP | 80.00 | 40.00 |" in page
    assert "| MLP | It had no result after 1 s. |" in page
    assert "| BERT-base | 1.20 (96%) | 2.00 (80%) | wrong | 1.90 | 1.60 |" in page
    assert "| **geometric mean** | **1.20** | **2.00** | **1.00** | **1.90** | **1.60** |" in page
    assert "| BERT-base | 1 | 1 − 1.0e-05 | wrong | 1 − 1.0e-05 | 1 − 1.0e-05 |" in page
    best = "eager:bf16 2.00 | 1.90, 95% | eager:bf16 2.00 | 125% (autocast 1.60) |"
    assert f"| BERT-base | {best}" in page
    assert "| **geometric mean of 1 transformers** | **2.00** | **1.90** | **2.00** |" in page
    assert "| BERT-base | 90% / 70% | wrong |" in page
    assert "| MLP, training step | 1.40 |" in page
    assert "- BERT-base, onnxrt:int8: wrong: `its error is 0.2 of its size.`" in page
    assert next(point.series for point in precision.drawn([ROW]).points) == BOUNDED
    assert Row.from_dict(ROW.to_dict()) == ROW


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


@pytest.mark.filterwarnings("ignore")
def test_peers_are_near_float32() -> None:
    built = MODELS["MLP"].build(TINY)
    with torch.no_grad():
        expected = built.module(*built.args, **built.kwargs)
        makers = {name: peer.make for name, peer in run.PEERS.items() if "compile" not in name}
        for call in peers(built, makers).values():
            found = call(*built.args, **built.kwargs)
            torch.testing.assert_close(found.float(), expected, rtol=0.1, atol=0.1)
