"""Architectures of transformers: made small by the names of their fields, and run four times."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.architectures import run
from benchmarks.architectures.make import Made
from benchmarks.architectures.run import measure

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.sweep
@pytest.mark.parametrize("engine", ["onnxrt", "openvino"])
def test_the_four_steps_of_a_model(engine):
    pytest.importorskip({"onnxrt": "onnxruntime"}.get(engine, engine))
    made = Made("bert", "BertForMaskedLM", "2-0-1", ("input_ids",))
    row = measure(made, engine)
    assert (row.status, row.breaks) == ("right", 0)
    assert row.in_engine > 0.9 * row.operations > 0


@pytest.mark.parametrize("step", run.STEPS)
def test_a_wrong_step_is_found(monkeypatch, step):
    made = Made("bert", "BertForMaskedLM", "2-0-1", ("input_ids",))
    calls = iter(run.STEPS)
    right = run.results

    def off(model, given):
        found = right(model, given)
        if not isinstance(model, torch.nn.Module) or hasattr(model, "report"):
            found = [tensor + (next(calls) == step) for tensor in found]
        return found

    monkeypatch.setattr(run, "results", off)
    row = measure(made, "eager")
    assert (row.status, row.step) == ("wrong", step)
