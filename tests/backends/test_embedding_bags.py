"""Embedding bags run in torch's own kernels, beside what an engine has of a graph."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynamo_ext

ROWS = torch.randint(10, (6, 4))


def test_offsets_that_torch_refuses_are_refused() -> None:
    pytest.importorskip("onnxruntime")
    fast = dynamo_ext.optimize("onnxrt")(nn.EmbeddingBag(10, 8))
    flat = ROWS.flatten()
    with torch.no_grad():
        fast(flat, torch.tensor([0, 4, 8]))
        with pytest.raises(RuntimeError, match="offsets"):
            fast(flat, torch.tensor([1, 4, 8]))


@pytest.mark.parametrize(
    ("engine", "module"), [("onnxrt", "onnxruntime"), ("tvm", "tvm"), ("xla", "jax")]
)
def test_an_engine_has_the_layers_after_a_bag(engine: str, module: str) -> None:
    pytest.importorskip(module)
    bag = nn.EmbeddingBag(10, 3, mode="mean")
    model = nn.Sequential(bag, nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        fast = dynamo_ext.optimize(engine)(model)
        for rows in (ROWS, ROWS[:4], ROWS[:5], ROWS[:0]):
            torch.testing.assert_close(fast(rows), model(rows), rtol=1e-4, atol=1e-5)
        for refused in (ROWS + 5, -ROWS):
            # torch's own words depend on the processor, and on where its kernel notices.
            with pytest.raises(RuntimeError, match=r"(?i)index"):
                model(refused)
            with pytest.raises(RuntimeError, match=r"(?i)index"):
                fast(refused)
        torch.testing.assert_close(fast(ROWS), model(ROWS), rtol=1e-4, atol=1e-5)
    engines = {p.engine for graph in fast.report().graphs for p in graph.partitions}
    assert engines == {engine, "eager"}
