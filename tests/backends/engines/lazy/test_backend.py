"""Lazy Tensor Core against eager: values, what is refused, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name

from dynamo_ext.backends import registry
from dynamo_ext.backends.engines.lazy import session as lazy_session
from dynamo_ext.backends.engines.lazy import torch_private
from tests.backends.engine_zoo import ZOO as COMMON
from tests.backends.engine_zoo import gives_what_eager_gives, mlp, node_of, same

Harness = Any

pytestmark = pytest.mark.skipif(not torch_private.has_lazy(), reason="This torch has no LTC.")


def lazy(**options: Any) -> Any:
    return registry.compiler("lazy", options)


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "alpha": (lambda x: torch.add(x, x.exp(), alpha=2), (torch.randn(4),)),
    "twice": (lambda x: (y := x.exp() + 1, y, y.clone(), y.view(-1)), (torch.randn(3),)),
    "returned": (lambda x: (x, x + 1, x.clone()), (torch.randn(3),)),
    "constants": (lambda x: (torch.full((2, 2), 3.0), x.new_ones(3), x + 1), (torch.randn(3),)),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2) + 1, (torch.randn(1, 8, 3, 3),)),
    "embedding": (lambda x, i: F.embedding(i, x) + 1, (torch.randn(5, 3), torch.tensor([4, 0]))),
    "nan": (lambda x: torch.relu(x) + x.clamp(-1, 1), (torch.tensor([torch.nan, -1.0, 1.0]),)),
}


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str) -> None:
    with torch.no_grad():
        gives_what_eager_gives(harness, lazy(verify=False, min_partition=1), ZOO[name])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "overflow", "alpha", "embedding"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    fn, args = {**COMMON, **ZOO}[name]
    with torch.no_grad():
        harness.compile(fn, lazy())(*args)
    assert set(harness.engines) == {"lazy"}


def test_graphs_that_differ_only_in_which_input_goes_where() -> None:
    """Lazy Tensor Core's own cache takes them for the same."""
    aten = torch.ops.aten

    def apart(order: tuple[int, int], last: int) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        inputs = [graph.placeholder(name) for name in "xy"]
        difference = graph.call_function(aten.sub.Tensor, tuple(inputs[i] for i in order))
        graph.output([graph.call_function(aten.div.Tensor, (difference, inputs[last]))])
        return torch.fx.GraphModule({}, graph)

    x, y = torch.rand(5, 5) + 0.5, torch.rand(5, 5) + 0.5
    made = [apart(order, last) for order in ((0, 1), (1, 0)) for last in (0, 1)]
    sessions = [lazy_session.Session(graph) for graph in made]
    for _ in range(2):
        for graph, session in zip(made, sessions, strict=True):
            torch.testing.assert_close(session.run(x, y), graph(x, y))


def test_an_index_beyond_the_end_raises_and_nothing_stays_behind(harness: Harness) -> None:
    weight = torch.randn(5, 3)

    def fn(i: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, weight) * 2 + 1

    compiled = harness.compile(fn, lazy())
    good, bad = torch.tensor([0, 4]), torch.tensor([0, 5])
    with torch.no_grad():
        same(compiled(good), fn(good))
        with pytest.raises(IndexError):
            compiled(bad)
        same(compiled(good), fn(good))
    assert harness.engines == {"lazy": 3}


REFUSED: dict[str, tuple[Any, torch.Tensor, tuple[Any, ...], str]] = {
    "kthvalue": (torch.ops.aten.kthvalue.default, torch.randn(3, 7), (2,), "runs it eagerly"),
    "strides": (torch.ops.aten.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    "pixel_shuffle": (torch.ops.aten.pixel_shuffle.default, torch.randn(1, 8, 3, 3), (2,), "else"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_and_why(name: str) -> None:
    op, value, rest, reason = REFUSED[name]
    answer = registry.get("lazy").supports(node_of(op, value, *rest))
    assert not answer
    assert reason in answer.reason


def test_probe_says_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.get("lazy").probe()
    assert (found.available, found.device) == (True, "cpu")
    monkeypatch.setattr(torch_private, "has_lazy", lambda: False)
    answer = registry.get("lazy").probe()
    assert not answer.available
    assert "without Lazy Tensor Core" in answer.reason
    assert answer.remedy


def test_freeze_reaches_the_engine(harness: Harness) -> None:
    model, x = mlp(), torch.randn(2, 8)
    with torch.no_grad():
        same(harness.compile(model, lazy(freeze="false"))(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0
