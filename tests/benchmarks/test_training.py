"""Training steps of the zoo: what they leave is compared."""

from __future__ import annotations

from typing import Any

import pytest
import torch

pytest.importorskip("transformers")

from benchmarks.models import run as model_run
from benchmarks.zoo.form import TINY

NAME = "MLP, training step"


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
