"""Where a graph is cut, and that cutting keeps the order of side effects."""

from __future__ import annotations

import functools
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.base import Support
from dynamo_ext.backends.pipeline import partition


def traced(fn: Any, *args: Any) -> torch.fx.GraphModule:
    return make_fx(fn, tracing_mode="fake")(*args)


def cut(graph: torch.fx.GraphModule, *refused: str, smallest: int = 1) -> Any:
    def supports(node: torch.fx.Node) -> Support:
        return Support(not any(name in str(node.target) for name in refused), "refused")

    parts, eager = partition.split(graph, partition.decide_support(graph, supports), smallest)
    return SimpleNamespace(graph=graph, parts=parts, eager=eager)


X = torch.randn(3, 3)


def test_parts_are_convex_and_compute_the_same() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        return (y.cos() + y.cumsum(0).exp()) * y

    graph = traced(fn, X)
    parts = cut(graph, "cumsum")
    [(node, left)] = parts.eager.items()
    assert (partition.operation_name(node), left) == (
        "aten.cumsum.default",
        Support(supported=False, reason="refused"),
    )
    assert sum(map(len, parts.parts.values())) == 5
    torch.testing.assert_close(parts.graph(X), fn(X))


@pytest.mark.parametrize(
    ("fn", "counts"),
    [
        (lambda x: (x.cumsum(0).sin() + x.cos()).exp().cumsum(1), [4]),
        (lambda x: x.sin().cumsum(0).cos().exp(), [1, 2]),
        (lambda x: x.sin() * x.sin().cumsum(0).t().cos(), [1, 4]),
    ],
)
def test_one_part_where_eager_is_not_between_its_operations(fn: Any, counts: list[int]) -> None:
    parts = cut(traced(fn, X), "cumsum")
    assert sorted(map(len, parts.parts.values())) == counts
    torch.testing.assert_close(parts.graph(X), fn(X))


def test_indexing_follows_its_source_and_does_not_count() -> None:
    graph = traced(lambda x: x.max(0)[0] + 1, X)
    parts = cut(graph)
    names = [partition.operation_name(node) for node in parts.parts["part_0"]]
    assert names == ["aten.max.dim", "aten.add.Tensor"]
    assert sum(map(partition.computes, traced(lambda x: x.max(0)[0] + 1, X).graph.nodes)) == 2


def test_small_parts_stay_unless_they_are_everything() -> None:
    fn: Any = lambda x: x.sin().cumsum(0).cos()  # noqa: E731
    assert cut(traced(fn, X), "cumsum", smallest=2).parts == {}
    assert cut(traced(fn, X), smallest=9).parts.keys() == {"part_0"}


def test_random_numbers_are_drawn_in_the_same_order() -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        deep = x.sin().cos().exp()
        first = torch.rand_like(deep)
        second = torch.rand(3, 3)
        return first * 2 + (second + x).sin()

    parts = cut(traced(fn, X))
    torch.manual_seed(1)
    expected = fn(X)
    torch.manual_seed(1)
    torch.testing.assert_close(parts.graph(X), expected)
    assert {each.reason for each in parts.eager.values()} == {
        "It draws random numbers, which stay with torch's generator."
    }


@pytest.mark.parametrize(
    ("fn", "word"),
    [
        (lambda x: x.add_(1), "in place"),
        (lambda x: torch.bernoulli(x.sigmoid()), "random"),
        (lambda x: x[:0].sin(), "empty"),
        (lambda x: torch.empty(3), "uninitialised"),
        (lambda x: x.sin(), ""),
    ],
)
def test_what_no_engine_may_take(fn: Any, word: str) -> None:
    found = [
        partition.unsupported_reason(n)
        for n in traced(fn, X).graph.nodes
        if n.op == "call_function"
    ]
    assert word in found[-1]
    assert bool(found[-1]) == bool(word)


def test_attention_without_dropout_is_not_random() -> None:
    q = torch.randn(1, 2, 4, 8)

    def fn(q: torch.Tensor, p: float) -> torch.Tensor:
        return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu.default(q, q, q, p)[0]

    for p, word in ((0.0, ""), (0.5, "random")):
        graph = traced(functools.partial(fn, p=p), q)
        (node,) = [n for n in graph.graph.nodes if "attention" in str(n.target)]
        assert word in partition.unsupported_reason(node)
        assert bool(partition.unsupported_reason(node)) == bool(word)
