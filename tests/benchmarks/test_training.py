"""Training steps of the zoo: what they leave is compared."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("transformers")

from benchmarks.models import run as model_run
from benchmarks.zoo.form import TINY

NAME = "MLP, training step"


@pytest.mark.parametrize(("factor", "status"), [(1.0, "right"), (1.1, "wrong")])
def test_wrong_gradients_are_wrong(
    monkeypatch: pytest.MonkeyPatch, factor: float, status: str
) -> None:
    def compiler(graph: Any, _inputs: list[Any]) -> Any:
        def run(*args: Any) -> Any:
            outputs = graph.forward(*args)
            # Only the graph that ends in the loss has gradients.
            for out in (each for each in outputs if each.requires_grad):
                out.register_hook(lambda gradient: gradient * factor)
            return outputs

        return run

    optimize = model_run.dynamo_ext.optimize
    monkeypatch.setattr(model_run.dynamo_ext, "optimize", lambda *_, **k: optimize(compiler, **k))
    row = model_run.measure(NAME, "eager", "float32", form=TINY)
    assert (row.status, row.graphs > 0) == (status, True), row.reason
