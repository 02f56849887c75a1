"""Embedding bags of one size are a gather and a sum; all others are left."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

import dynamo_ext
from dynamo_ext.backends import even_bags
from dynamo_ext.backends.constants import fold

ROWS = torch.randint(10, (6, 4))


def unpacked(
    bag: nn.Module, *args: Any, takes: str = "aten.embedding"
) -> tuple[list[str], torch.Tensor]:
    """The operators that are left of a bag, and what they give."""

    def call(weights: dict[str, torch.Tensor], *given: Any) -> torch.Tensor:
        found: torch.Tensor = torch.func.functional_call(bag, weights, given)
        return found * 1

    weights = {name: each.detach() for name, each in bag.named_parameters()}
    with torch.no_grad():
        graph = make_fx(call, tracing_mode="fake")(weights, *args)
        graph.graph.eliminate_dead_code()
        fold(graph)
        even_bags.unpack(graph, lambda node: takes in str(node.target))
        calls = [node for node in graph.graph.nodes if node.op == "call_function"]
        names = [f"{node.target.__name__}" for node in calls]
        return names, graph(weights, *args)


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_of_one_size_are_a_gather_and_a_reduction(mode: str) -> None:
    bag = nn.EmbeddingBag(10, 3, mode=mode)
    names, found = unpacked(bag, ROWS)
    assert not any("bag" in name for name in names)
    assert "embedding.default" in names
    torch.testing.assert_close(found, bag(ROWS).detach())


@pytest.mark.parametrize(
    ("bag", "args"),
    [
        (nn.EmbeddingBag(10, 3, mode="max"), (ROWS,)),
        (nn.EmbeddingBag(10, 3, padding_idx=1), (ROWS,)),
        (nn.EmbeddingBag(10, 3, mode="sum"), (ROWS, None, torch.rand(6, 4))),
        (nn.EmbeddingBag(10, 3), (ROWS.flatten(), torch.tensor([0, 3, 9]))),
    ],
    ids=["maximum", "padding", "weighted", "offsets given"],
)
def test_other_bags_are_left(bag: nn.EmbeddingBag, args: tuple[Any, ...]) -> None:
    names, found = unpacked(bag, *args)
    assert any("bag" in name for name in names)
    torch.testing.assert_close(found, bag(*args).detach())


class Uneven(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.bag = nn.EmbeddingBag(10, 3)

    def forward(self, rows: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.bag(rows, torch.arange(3) ** 2)
        return found


def test_bags_of_other_sizes_are_left() -> None:
    model = Uneven()
    names, found = unpacked(model, torch.arange(8))
    assert any("bag" in name for name in names)
    torch.testing.assert_close(found, model(torch.arange(8)).detach())


@pytest.mark.parametrize("takes", ["embedding", "nothing"])
def test_bags_are_left_to_who_has_them_and_to_who_has_no_embedding(takes: str) -> None:
    names, _ = unpacked(nn.EmbeddingBag(10, 3), ROWS, takes=takes)
    assert any("bag" in name for name in names)
    assert "embedding.default" not in names


def test_an_empty_batch_is_left() -> None:
    bag = nn.EmbeddingBag(10, 3)
    _, found = unpacked(bag, ROWS[:0])
    assert found.shape == (0, 3)


def test_bags_of_any_batch_stay_in_the_engine() -> None:
    pytest.importorskip("tvm")
    model = nn.Sequential(nn.EmbeddingBag(10, 8), nn.Linear(8, 3), nn.ReLU())
    fast = dynamo_ext.optimize("tvm")(model)
    with torch.no_grad():
        for rows in (ROWS, ROWS[:4], ROWS[:5], ROWS[:0]):
            torch.testing.assert_close(fast(rows), model(rows), rtol=1e-4, atol=1e-5)
    taken = fast.report().graphs[1].partitions
    assert not any(
        "bag" in name for part in taken if part.engine == "eager" for name in part.targets
    )


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
def test_engines_take_bags(engine: str, module: str) -> None:
    pytest.importorskip(module)
    bag = nn.EmbeddingBag(10, 3, mode="mean")
    model = nn.Sequential(bag, nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2))
    with torch.no_grad():
        fast = dynamo_ext.optimize(engine)(model)
        torch.testing.assert_close(fast(ROWS), model(ROWS), rtol=1e-4, atol=1e-5)
        for refused in (ROWS + 5, -ROWS):
            # torch's own words depend on the processor, and on where its kernel notices.
            with pytest.raises(RuntimeError, match=r"(?i)index"):
                model(refused)
            with pytest.raises(RuntimeError, match=r"(?i)index"):
                fast(refused)
        torch.testing.assert_close(fast(ROWS), model(ROWS), rtol=1e-4, atol=1e-5)
    report = fast.report()
    assert {p.engine for graph in report.graphs for p in graph.partitions} == {engine}
