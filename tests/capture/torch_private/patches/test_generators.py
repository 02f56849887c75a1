"""A generator that leaves compiled code is Python's own; one that stays is captured."""

from __future__ import annotations

import itertools
import types
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from dynamo_ext.records.report import Report

X = torch.arange(3.0)


def endless(x: torch.Tensor) -> Iterator[torch.Tensor]:
    for i in itertools.count():
        yield x * i


def returned(x: torch.Tensor) -> Any:
    y = x + 1
    return endless(y)


def begun(x: torch.Tensor) -> Any:
    g = endless(x + 1)
    return next(g) + 1, g


def in_containers(x: torch.Tensor) -> Any:
    y = x + 1
    return {"a": [endless(y)]}, y * 2


def by_another(x: torch.Tensor) -> Any:
    y = (x + 1).sin()
    found = returned(y)
    return found, y * 2


class Holder:
    def __init__(self) -> None:
        self.found: Any = None

    def keep(self, x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        self.found = endless(y)
        return y * 2


def leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, (list, tuple)):
        for item in value:
            yield from leaves(item)
    else:
        yield value


def optimized(function: Callable[..., Any], *args: Any) -> tuple[Any, Report]:
    fast = dynamo_ext.optimize("eager")(function)
    fast(*args)
    return fast(*args), fast.report()


@pytest.mark.parametrize("function", [returned, begun, in_containers, by_another])
def test_what_leaves_a_function_is_a_generator(function: Callable[..., Any]) -> None:
    found, report = optimized(function, X)
    pairs = list(zip(leaves(found), leaves(function(X)), strict=True))
    assert any(isinstance(a, types.GeneratorType) for a, _ in pairs)
    for a, b in pairs:
        assert type(a) is type(b)
        if isinstance(a, types.GeneratorType):
            a.send(None), b.send(None)
            a, b = next(a), next(b)  # noqa: PLW2901
        assert torch.equal(a, b)
    assert report.graphs
    assert report.breaks


def test_what_is_kept_in_an_object_is_a_generator() -> None:
    holder = Holder()
    fast = dynamo_ext.optimize("eager")(holder.keep)
    assert torch.equal(fast(X), (X + 1) * 2)
    assert isinstance(holder.found, types.GeneratorType)
    assert torch.equal(next(holder.found), X * 0)
    assert sum(len(graph.operations) for graph in fast.report().graphs) == 6


def test_the_report_says_where_and_what_helps() -> None:
    _, report = optimized(in_containers, X)
    (cut,) = report.breaks
    assert cut.line is not None
    assert cut.line.code == 'return {"a": [endless(y)]}, y * 2'
    assert "generator" in cut.reason
    assert cut.hints


@pytest.mark.parametrize(
    ("made", "kind"),
    [("gen(y)", types.GeneratorType), ("torch.optim.SGD(net.parameters(), 0.1)", torch.optim.SGD)],
)
def test_a_statement_of_a_cell_is_set_apart_for_good(made: str, kind: type) -> None:
    setup = (
        "x = torch.arange(3.)\nnet = torch.nn.Linear(3, 2)\n"
        "def gen(t):\n    for i in range(3):\n        yield t * i"
    )
    with live(setup) as cells:
        for _ in range(3):
            report = cells.report(f"y = x + 1\ng = {made}\nz = y * 2")
            assert isinstance(cells.names["g"], kind)
            assert [len(graph.operations) for graph in report.graphs if graph.calls] == [3, 3]
    assert not report.recompiles
    assert not report.compile_seconds


def test_a_whole_graph_is_refused() -> None:
    fast = dynamo_ext.optimize("eager", fullgraph=True)(returned)
    with pytest.raises(torch._dynamo.exc.Unsupported, match="generator that leaves"):
        fast(X)


def test_one_that_stays_is_captured_whole() -> None:
    def within(x: torch.Tensor) -> torch.Tensor:
        g = endless(x)
        first = next(g)
        rest = list(itertools.islice(g, 2))
        return first + sum(rest) + sum(x * i for i in range(2))

    found, report = optimized(within, X)
    assert torch.equal(found, within(X))
    assert len(report.graphs) == 1
    assert not report.breaks


def test_one_place_of_a_helper_stays_where_it_is_used_up() -> None:
    def helper(x: torch.Tensor) -> Any:
        return (x * i for i in range(3))

    def keeps(x: torch.Tensor) -> Any:
        return helper(x + 1), x * 2

    def uses(x: torch.Tensor) -> Any:
        return sum(helper(x + 1)) + x * 2

    kept, _ = optimized(keeps, X)
    assert isinstance(kept[0], types.GeneratorType)
    found, report = optimized(uses, X)
    assert torch.equal(found, uses(X))
    assert not report.breaks


@pytest.mark.parametrize("items", ["(1, 2, 3)", "(x, x + 1, x + 2)"])
def test_next_of_a_tuples_iterator_from_an_earlier_cell(items: str) -> None:
    with live(f"x = torch.arange(3.)\nit = iter({items})\nsame = {items}[0]") as cells:
        cells.report("a = next(it)\ny = x + a")
        assert torch.equal(torch.as_tensor(cells.names["a"]), torch.as_tensor(cells.names["same"]))
        assert len(list(cells.names["it"])) == 2
