"""The benchmark of auto: one small model for real, and the page."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from benchmarks.auto import __main__ as command
from benchmarks.auto import table
from benchmarks.auto.run import Row, Single
from benchmarks.packed_rows import PackedRows
from benchmarks.peers import PEERS


def single(name: str, ratio: float, outcome: str = "measured") -> Single:
    return Single(name, outcome, ratio, ratio * 0.98, ratio * 1.02)


ROWS = (
    Row(
        "one",
        eager_seconds=0.01,
        winners=(("onnxrt", 2), ("ts", 1)),
        graphs=3,
        race_seconds=12.0,
        auto=single("auto", 2.0),
        singles=(single("onnxrt", 1.9), single("ts", 1.1)),
        peers=(
            single("torch.compile", 1.5),
            Single("relax", "failed", reason="no \x1b[96membedding\x1b[0m"),
        ),
        over_best=single("onnxrt", 1.05),
        known_start=1.5,
        winner_start=1.4,
    ),
    Row(
        "two",
        eager_seconds=0.02,
        auto=single("auto", 0.5),
        singles=(single("onnxrt", 0.0, "eager"), single("ts", 0.5)),
    ),
    Row("three", error="The process ended with code 1: no"),
)


def test_the_page() -> None:
    page = table.document(ROWS, "Measured with: a machine.")
    assert "| one | 10.00 | 2.00 (1.96–2.04) | onnxrt ×2, ts | onnxrt 1.90 |" in page
    assert "| 12 | 1.50 | 1.40 |" in page
    assert "Over 1 model a known start takes 1.07 of the winner's own first call" in page
    assert "| three | The process ended with code 1: no |" in page
    assert "| **auto** | 1.00 | 0.50 |" in page
    # Where a backend does not take a model, its user has eager.
    assert "| onnxrt | 1.38 | 1.00 |" in page
    assert "| two | eager | 0.50 (0.49–0.51) |" in page
    assert "| one | 2.00 (1.96–2.04) | 1.50 (1.47–1.53) | failed |" in page
    assert "- one, relax: failed: `no embedding`" in page
    assert "onnxrt 2, ts 1." in page
    assert page.count("Not measured yet.") == 2
    assert Row.from_dict(ROWS[0].to_dict()) == ROWS[0]


def test_training_steps_have_means_of_their_own() -> None:
    step = replace(ROWS[0], model="MLP, training step", auto=single("auto", 0.25))
    page = table.document([*ROWS, step], "Measured with: a machine.")
    inference, _, learning = page.partition("Over the training steps:")
    assert "| **auto** | 1.00 | 0.50 |" in inference
    assert "| **auto** | 0.25 | 0.25 |" in learning
    _, _, peers = page.partition("### Training steps")
    assert "| MLP, training step | 0.25 (0.24–0.26) | 1.50 (1.47–1.53) | failed |" in peers


def test_what_the_rounds_do_not_show_is_not_called_the_same() -> None:
    assert table.shown(Single("auto", "measured", 1.0, 0.98, 1.03)).endswith(", same")
    wide = table.shown(Single("auto", "measured", 1.62, 0.95, 2.09))
    assert wide == "1.62 (0.95–2.09), unclear"


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
