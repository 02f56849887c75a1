"""Loops that are too long for one graph: a cell's goes turn by turn, a function's runs in Python."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.capture.torch_private.patches import loops
from tests.capture.live import Live

NOTEBOOK = """
x = torch.linspace(-1, 1, 6)
net = torch.nn.Linear(6, 6).requires_grad_(False)
"""
X = torch.linspace(-1, 1, 6)


def sizes(report: Any) -> list[tuple[int, int]]:
    return sorted((graph.operation_count, graph.calls) for graph in report.graphs)


def test_a_loop_of_few_turns_stays_whole(cells: Live) -> None:
    report = cells.report("y = x\nfor i in range(20):\n    y = y.sin() + x")
    assert sizes(report) == [(40, 1)]


@pytest.mark.parametrize(
    "loop",
    [
        "for i in range(70):",
        "for i in list(range(70)):",
        "for r in torch.ones(70, 2):",
        "for i in (j for j in range(70)):",
        "i = 0\nwhile (i := i + 1) < 70:",
        "for i, j in enumerate(range(70)):",
    ],
)
def test_a_loop_of_many_turns_is_captured_turn_by_turn(cells: Live, loop: str) -> None:
    cells.well(f"y = x\n{loop}\n    y = (y * 0.5).sin() + x\nplain = y")
    report = cells.report(f"y = x\n{loop}\n    y = (y * 0.5).sin() + x", "-b eager --capture all")
    assert torch.equal(cells.names["y"], cells.names["plain"])
    assert all(operations <= 6 for operations, _ in sizes(report))
    assert max(calls for _, calls in sizes(report)) >= 60
    assert not report.fallbacks


def test_a_deep_model_of_torchs_own_stays_whole(cells: Live) -> None:
    cells.well("deep = torch.nn.Sequential(*[torch.nn.Tanh() for _ in range(350)])")
    assert sizes(cells.report("y = deep(x)")) == [(350, 1)]


def test_nested_loops_are_given_up_by_their_operations(cells: Live) -> None:
    text = "d = torch.zeros(20, 20)\nfor i in range(20):\n    for j in range(20):\n        d[i, j] = x[i % 6] * x[j % 6] + i"
    report = cells.report(text)
    assert max(operations for operations, _ in sizes(report)) < loops.MOST_OPERATIONS


def test_a_comprehension_of_many_elements_is_python(cells: Live) -> None:
    cells.well("rows = list(torch.ones(100, 3))\ndef half(r):\n    return (r / 2).exp() + 1")
    report = cells.report("total = torch.stack([half(r) for r in rows])\nafter = total.sum() * 2")
    assert torch.equal(
        cells.names["total"], torch.stack([(r / 2).exp() + 1 for r in torch.ones(100, 3)])
    )
    assert (3, 100) in sizes(report)


@pytest.mark.parametrize("over", ["range(n)", "[0] * n"])
@pytest.mark.parametrize("turns", [12, 600])
def test_a_functions_loop_with_the_same_callees_runs_in_python_when_it_is_long(
    cells: Live, monkeypatch: pytest.MonkeyPatch, turns: int, over: str
) -> None:
    traced: list[float] = []
    monkeypatch.setattr(loops, "clock", lambda: traced.append(0.0) or 0.0)
    cells.well(
        f"def solve(y, n):\n    for _ in {over}:\n        y = step(y)\n    return y\n"
        "def step(y):\n    return (net(y) * 0.1).tanh() + y"
    )
    text = f"y = solve(x + 1, {turns}) * 2"
    cells.well(f"{text}\nplain = y")
    report = cells.report(text)
    torch.testing.assert_close(cells.names["y"], cells.names["plain"])
    in_python = [b for b in report.breaks if b.what.startswith("Call of a function with a loop")]
    assert bool(in_python) == (turns > 100)
    if in_python:
        assert "`solve` runs in Python" in in_python[0].explanation
        # What all turns would be is known after some; what a turn calls is captured by itself.
        assert len(traced) < 3 * loops.MOST_TURNS
        assert turns in {calls for _, calls in sizes(report)}


def test_a_loop_over_different_modules_stays_whole() -> None:
    layers = torch.nn.ModuleList(torch.nn.Linear(6, 6) for _ in range(40)).requires_grad_(False)

    def through(y: torch.Tensor) -> torch.Tensor:
        for layer in layers:
            for _ in range(2):
                y = (layer(y) * 1.01 + 0.1).sin().cos().tanh().exp()
                y = y.neg().abs().sqrt().add(1).sub(1)
        return y

    fast = dynamo_ext.optimize("eager")(through)
    assert torch.equal(fast(X), through(X))
    (graph,) = fast.report().graphs
    assert graph.operation_count > loops._OPERATIONS - 100


def test_a_long_loop_without_operations_ends_the_tracing(cells: Live) -> None:
    cells.well(
        "def counted(y):\n    found = {}\n    for i in range(30_000):\n        found[i % 7] = found.get(i % 7, 0) + 1\n"
        "    return y * found[0]"
    )
    report = cells.report("z = counted(x) + 1")
    assert torch.equal(cells.names["z"], X * 4286 + 1)
    assert report.compile_seconds < 30


def test_a_function_that_calls_itself_often_runs_in_python(cells: Live) -> None:
    cells.well("def power(a, n):\n    return a * 1 if n == 0 else a * power(a, n - 1)")
    cells.report("r = power(x, 40)")
    torch.testing.assert_close(cells.names["r"], X**41)


def test_fullgraph_captures_every_turn(cells: Live) -> None:
    report = cells.report("y = x\nfor i in range(100):\n    y = y.sin()", "-b eager --fullgraph")
    assert sizes(report) == [(100, 1)]


def test_a_method_of_torchs_own_is_never_kept_as_python() -> None:
    block = torch.nn.Sequential(*[torch.nn.Tanh()] * 30)

    def repeated(y: torch.Tensor) -> torch.Tensor:
        for _ in range(50):
            y = block(y)
        return y

    fast = dynamo_ext.optimize("eager")(repeated)
    assert torch.equal(fast(X), repeated(X))
    assert torch.nn.Sequential.forward.__code__ not in loops.python_loops
    assert repeated.__code__ in loops.python_loops
