"""TorchScript, optimised for inference."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.torchscript import backend

Harness = Any


def test_optimizing_for_inference_folds_batch_norm() -> None:
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(512, 5)
    )
    kept: list[list[str]] = []
    compiler = registry.compiler("ofi")
    written = backend.written

    def spy(graph: Any, **options: Any) -> Any:
        writer = written(graph, **options)
        kept.append([str(node.kind()) for node in writer.jit._graph.nodes()])
        return writer

    with pytest.MonkeyPatch.context() as patch, torch.no_grad():
        patch.setattr(backend, "written", spy)
        torch.compile(model.eval(), backend=compiler)(torch.randn(2, 3, 8, 8))
    (kinds,) = kept
    assert "aten::conv2d" in kinds
    assert "aten::linear" in kinds
    assert "aten::batch_norm" not in kinds


def test_ofi_refuses_training_and_says_why(harness: Harness) -> None:
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))
    x = torch.randn(3, 8)
    compiled = harness.compile(model, registry.compiler("ofi"))
    loss = compiled(x).sum()
    loss.backward()
    torch.testing.assert_close(loss, model(x).sum())
    (fallback,) = harness.journal.fallbacks.values()
    assert (fallback.stage, fallback.scope) == ("unsupported", "graph")
    assert "differentiated" in fallback.message
    assert "no_grad" in fallback.remedy
    assert harness.engines == {}
