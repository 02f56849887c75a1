"""The benchmark of auto: one small model for real."""

from __future__ import annotations

import sys

import pytest

from benchmarks.auto import __main__ as command
from benchmarks.auto.run import Row
from benchmarks.packed_rows import PackedRows
from benchmarks.peers import PEERS


@pytest.mark.sweep
def test_a_small_model_for_real(tmp_path, monkeypatch) -> None:
    rows = tmp_path / "auto.jsonl.gz"
    words = ["--quick", "--models", "MLP", "--backends", "ts,aot_eager"]
    words += ["--budget", "1", "--race", "0.5", "--rows", str(rows)]
    monkeypatch.setattr(sys, "argv", ["benchmarks.auto", *words])
    assert command.main() == 0
    [facts] = PackedRows(rows, ("model",)).all()
    row = Row.from_dict({name: value for name, value in facts.items() if name != "machine"})
    assert row.graphs == 1
    assert row.eager_seconds > 0
    assert {single.name for single in row.singles} == {"ts", "aot_eager"}
    assert row.auto is not None
    assert row.over_best is not None
    assert {single.name for single in row.peers} == set(PEERS)
    assert all(single.outcome == "measured" or single.reason for single in row.peers)
    assert sum(count for _, count in row.winners) == 1
