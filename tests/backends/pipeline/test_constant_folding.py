"""What depends on no input is computed once, and never what a user could write to."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.pipeline.constant_folding import LARGEST, fold

X = torch.linspace(-1, 1, 16).reshape(4, 4)


def traced(function: Any, *args: Any) -> Any:
    graph = make_fx(function, tracing_mode="fake")(*args)
    graph.graph.eliminate_dead_code()
    return graph


def calls(graph: Any) -> list[str]:
    return [str(node.target) for node in graph.graph.nodes if node.op == "call_function"]


def masked(x: torch.Tensor) -> torch.Tensor:
    rows = torch.arange(4).unsqueeze(1)
    return x.masked_fill(rows < torch.arange(4), 0.0)


def test_a_mask_is_a_constant() -> None:
    graph = traced(masked, X)
    before = len(calls(graph))
    assert fold(graph) == before - len(calls(graph)) == 4
    assert calls(graph) == ["aten.masked_fill.Scalar"]
    held = [node for node in graph.graph.nodes if node.op == "get_attr"]
    assert [node.meta["val"].dtype for node in held] == [torch.bool]
    assert torch.equal(graph(X), masked(X))


def random(x: torch.Tensor) -> torch.Tensor:
    return x + torch.rand(4)


def uninitialised(x: torch.Tensor) -> torch.Tensor:
    return x + torch.empty(4).fill_(1.0)


def huge(x: torch.Tensor) -> torch.Tensor:
    return x.sum() + torch.ones(LARGEST // 4 + 1).sum()


@pytest.mark.parametrize("function", [random, uninitialised])
def test_what_differs_each_time_is_left(function: Any) -> None:
    graph = traced(function, X)
    before = calls(graph)
    assert fold(graph) == 0
    assert calls(graph) == before


def test_what_is_large_is_left_and_what_it_comes_to_as_well() -> None:
    graph = traced(huge, X)
    assert fold(graph) == 0


def test_constants_together_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dynamo_ext.backends.pipeline.constant_folding.ALTOGETHER", 40)
    graph = traced(masked, X)
    assert fold(graph) == 2
    assert torch.equal(graph(X), masked(X))


def returned(x: torch.Tensor) -> Any:
    table = torch.arange(4) * 2
    return x + table, table.view(2, 2)


def test_what_is_returned_is_new_each_time() -> None:
    graph = traced(returned, X)
    assert fold(graph) == 1
    first = graph(X)[1]
    first.zero_()
    assert torch.equal(graph(X)[1], torch.tensor([[0, 2], [4, 6]]))
    assert torch.equal(graph(X)[0], X + torch.arange(4) * 2)


def failing(x: torch.Tensor) -> torch.Tensor:
    return x + torch.arange(4)[torch.full((4,), 9)]


def test_what_raises_is_left_to_raise() -> None:
    graph = traced(failing, X)
    fold(graph)
    with pytest.raises(IndexError):
        graph(X)


def positions(table: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    hidden = x + table[torch.arange(4) + 1]
    return torch.where(torch.arange(4) < 2, hidden, hidden * 2)


def test_an_engine_gets_the_constants_of_a_graph_that_is_cut_up(
    harness: Any, scripted: Any
) -> None:
    table = torch.randn(8, 4)
    scripted.refuses = ("sin",)
    compiled = harness.compile(lambda x: positions(table, x).sin(), scripted)
    with torch.no_grad():
        for _ in range(3):
            torch.testing.assert_close(compiled(X), positions(table, X).sin())
    assert harness.journal.folded == 4
    assert scripted.inputs == [2]
    assert harness.stages == ["unsupported"]


def test_in_training_and_in_inference_mode(harness: Any, scripted: Any) -> None:
    compiled = harness.compile(masked, scripted)
    with torch.inference_mode():
        assert torch.equal(compiled(X), masked(X))
    leaf = X.clone().requires_grad_()
    compiled(leaf).sum().backward()
    assert torch.equal(leaf.grad, torch.ones(4, 4).tril())
