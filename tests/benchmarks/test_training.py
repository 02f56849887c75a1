"""Training steps of the zoo: what they leave is compared, and put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.capture import run as capture_run
from benchmarks.capture.__main__ import PART
from benchmarks.models import run as model_run
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import TINY
from benchmarks.zoo.training import learnt, unlearnt

NAME = "MLP, training step"


def test_a_step_changes_the_weights_and_is_taken_back() -> None:
    built = MODELS[NAME].build(TINY)
    weights = [w.detach().clone() for w in built.module.parameters()]
    with built.gradients(), unlearnt(built.module):
        assert torch.is_grad_enabled()
        first = built.module(*built.args)
        left = learnt(built.module)
        second = built.module(*built.args)
    assert second < first
    assert len(left) == 2 * len(weights)
    assert not torch.equal(left[len(weights)], weights[0])
    for now, before in zip(built.module.parameters(), weights, strict=True):
        assert torch.equal(now, before)
        assert now.grad is None


@pytest.mark.parametrize(("factor", "status"), [(1.0, "right"), (1.1, "wrong")])
def test_wrong_gradients_are_wrong(
    monkeypatch: pytest.MonkeyPatch, factor: float, status: str
) -> None:
    def compiler(graph: torch.fx.GraphModule, _inputs: list[Any]) -> Any:
        class Scaled(torch.autograd.Function):
            @staticmethod
            def forward(_context: Any, loss: torch.Tensor) -> torch.Tensor:
                return loss.clone()

            @staticmethod
            def backward(_context: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
                return gradient * factor

        def run(*args: Any) -> Any:
            outputs = graph.forward(*args)
            # Only the graph that ends in the loss has gradients.
            return [Scaled.apply(out) if out.requires_grad else out for out in outputs]

        return run

    optimize = model_run.dynamo_ext.optimize
    monkeypatch.setattr(model_run.dynamo_ext, "optimize", lambda *_, **k: optimize(compiler, **k))
    row = model_run.measure(NAME, "eager", "float32", form=TINY)
    assert (row.status, row.graphs > 0) == (status, True), row.reason


def test_gradients_count_as_captured() -> None:
    given = PART.parser().parse_args(["--quick", "--budget", "0.5"])
    row = capture_run.measure(NAME, given)
    assert row.graph_calls >= 3
    assert len(row.sizes) == row.graph_calls
    assert row.time_share > 0.7
