"""A frame that would initialise a lazy module is plain Python that once, and captured from then."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from tests.capture.live import live

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.report import Report


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a = nn.LazyLinear(4)
        self.norm = nn.LazyBatchNorm1d()
        self.b = nn.LazyLinear(2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(x)
        return self.b(self.norm(self.a(x)))


def sequential() -> nn.Module:
    return nn.Sequential(nn.LazyLinear(4), nn.Dropout(), nn.LazyLinear(2))


def noisy(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x + torch.randn(5)
    return net(x)


def by_map(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    first, second = map(net, [torch.randn(3, 5), x])
    return first + second


def in_a_loop(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    for _ in range(3):
        total = total + net(x * torch.rand(1)).sum()
    return total


def checkpointed(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
    x = x + torch.randn(5)
    return torch.utils.checkpoint.checkpoint(net, x, use_reentrant=False)


MAKERS: list[Callable[[], nn.Module]] = [Net, sequential, lambda: nn.LazyLinear(3)]


def steps(function: Callable[..., Any], make: Callable[[], nn.Module]) -> list[Any]:
    """Three calls from one seed, then the weights and the next random number."""
    torch.manual_seed(0)
    net = make()
    found = [function(net, torch.randn(3, 5)) for _ in range(3)]
    return [*found, *net.state_dict().values(), torch.rand(1)]


def same(found: list[Any], expected: list[Any]) -> None:
    assert len(found) == len(expected)
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("backend", ["eager", "onnxrt"])
@pytest.mark.parametrize("make", MAKERS)
def test_a_module_draws_what_it_draws_without(
    make: Callable[[], nn.Module], backend: str, fullgraph: bool
) -> None:
    optimize = dynamo_ext.optimize(backend, fullgraph=fullgraph)
    expected = steps(lambda net, x: net(x), make)
    made: dict[int, Any] = {}

    def call(net: nn.Module, x: torch.Tensor) -> Any:
        fast = made.setdefault(id(net), optimize(net))
        return fast(x)

    same(steps(call, make), expected)
    (fast,) = made.values()
    assert [graph.calls for graph in fast.report().graphs] == [3 if make is MAKERS[2] else 2]


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("function", [noisy, by_map, in_a_loop, checkpointed])
def test_a_function_draws_what_it_draws_without(
    function: Callable[..., Any], make: Callable[[], nn.Module], fullgraph: bool
) -> None:
    fast = dynamo_ext.optimize("eager", fullgraph=fullgraph)(function)
    same(steps(fast, make), steps(function, make))
    assert fast.report().graphs[-1].calls == 2


def test_a_with_block_draws_what_it_draws_without() -> None:
    expected = steps(noisy, Net)
    with dynamo_ext.optimize("eager") as session:
        found = steps(noisy, Net)
    same(found, expected)
    assert [graph.calls for graph in session.report.graphs] == [2]


CELL = "x = torch.randn(3, 5)\ny = net(x)"
SETUP = (
    "from torch import nn\ntorch.manual_seed(0)\n"
    "net = nn.Sequential(nn.LazyLinear(4), nn.Dropout(), nn.LazyLinear(2))"
)


def test_the_report_says_what_ran_as_python_and_why() -> None:
    with live(SETUP) as cells:
        first, second, third = (cells.report(CELL) for _ in range(3))
    (frame,), (fallback,) = first.frames, first.fallbacks
    assert (frame.outcome, frame.is_cell, first.graphs) == ("eager", True, ())
    assert (fallback.stage, fallback.scope, fallback.subject) == ("capture", "frame", frame.id)
    assert fallback.line is not None
    assert fallback.line.code == "y = net(x)"
    assert "LazyLinear" in fallback.message
    assert fallback.harmless
    (advice,) = advise(first)
    assert advice.topic == "uncaptured"
    assert advice.weight < 0.1
    for later in (second, third):
        assert not later.fallbacks
        assert [graph.calls for graph in later.graphs] == [1]
    assert [frame.outcome for frame in third.frames] == ["reused"]


def test_run_initialises_in_its_place() -> None:
    expected = drawn(CELL)
    with live(SETUP) as cells:
        cells.well("%%dynamo run --quiet\n" + CELL)
        assert torch.equal(cells.names["y"], expected)


def drawn(cell: str) -> torch.Tensor:
    with live(SETUP) as cells:
        cells.well(cell)
        return cells.names["y"]


LOOP = "for _ in range(4):\n    y = net(torch.randn(3, 5)).tanh()\n    y.sum().backward()"


def test_of_a_loop_the_turns_after_the_first_are_captured() -> None:
    expected = drawn(LOOP)
    with live(SETUP) as cells:
        report = cells.report(LOOP)
        assert torch.equal(cells.names["y"], expected)
        again = cells.report(LOOP)
    assert sum(graph.calls for graph in report.graphs if len(graph.operations) > 3) == 3
    assert sum(graph.calls for graph in again.graphs if len(graph.operations) > 3) == 4
    assert not again.fallbacks


def test_a_loop_below_the_first_call_is_captured_at_once() -> None:
    cell = "x = torch.randn(3, 5)\nnet(x)\nfor _ in range(4):\n    y = net(x).tanh()"
    expected = drawn(cell)
    with live(SETUP) as cells:
        report: Report = cells.report(cell)
        assert torch.equal(cells.names["y"], expected)
    assert len(report.graphs) == 1
    assert len(report.fallbacks) == 1


def test_what_is_called_by_the_frame_is_captured() -> None:
    setup = SETUP + "\ndef scaled(x):\n    return (x * 2).sin() + 1"
    with live(setup) as cells:
        report = cells.report("x = scaled(torch.randn(3, 5))\ny = net(x)")
    assert [f.name for f in report.frames if f.outcome == "compiled"] == ["scaled"]
