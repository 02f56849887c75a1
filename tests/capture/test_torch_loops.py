"""Loops over a few modules, gone through turn by turn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounter

import dynamo_ext
from dynamo_ext.capture import torch_loops

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records import Report

X = torch.randn(3, 4)


@pytest.fixture(autouse=True)
def enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_loops, "ENABLED", True)


def test_they_are_left_to_eager_unless_enabled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch_loops, "ENABLED", False)
    report = run(plain, X)
    assert not report.graphs
    assert report.fallbacks


def layers(count: int) -> nn.ModuleList:
    torch.manual_seed(0)
    return nn.ModuleList(nn.Sequential(nn.Linear(4, 4), nn.Tanh()) for _ in range(count))


FEW = layers(5)


def run(function: Callable[..., Any], *args: Any, backend: str = "eager") -> Report:
    """Call three times as eager does, and say what was captured."""
    fast = dynamo_ext.optimize(backend)(function)
    with torch.no_grad():
        expected = function(*args)
        for _ in range(3):
            torch.testing.assert_close(fast(*args), expected, rtol=1e-5, atol=1e-6)
    return fast.report()


def plain(x: torch.Tensor) -> torch.Tensor:
    for layer in FEW:
        x = layer(x)
        print(end="")  # noqa: T201
    return x


def enumerated(x: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    sums = []
    for number, layer in enumerate(FEW):
        x = layer(x)
        if number % 2:
            sums.append(x.sum().item())
    return x, sums


def zipped(x: torch.Tensor) -> torch.Tensor:
    for layer, other in zip(FEW, list(FEW), strict=True):
        x = layer(x) + other(x)
        print(end="")  # noqa: T201
    return x


def by_name(x: torch.Tensor) -> torch.Tensor:
    for layer in nn.ModuleDict({str(i): each for i, each in enumerate(FEW)}).values():
        x = layer(x)
        print(end="")  # noqa: T201
    return x


def over_numbers(x: torch.Tensor) -> torch.Tensor:
    for number in range(5):
        x = FEW[number](x)
        print(end="")  # noqa: T201
    return x


def often(x: torch.Tensor) -> torch.Tensor:
    for layer in FEW:
        for _ in range(100):
            x = layer(x)
            print(end="")  # noqa: T201
    return x


MANY = layers(12)


def many(x: torch.Tensor) -> torch.Tensor:
    for layer in MANY:
        x = layer(x)
        print(end="")  # noqa: T201
    return x


@pytest.mark.parametrize(
    ("function", "graphs"), [(plain, 5), (enumerated, 3), (zipped, 5)], ids=lambda v: str(v)[:20]
)
def test_a_loop_over_modules_is_captured_turn_by_turn(
    function: Callable[..., Any], graphs: int
) -> None:
    report = run(function, X)
    assert len(report.graphs) == graphs
    assert not report.fallbacks
    # All are compiled in the first call, and reused in the others.
    assert {graph.calls for graph in report.graphs} == {3}


@pytest.mark.parametrize("function", [over_numbers, often, many], ids=lambda f: f.__name__)
def test_other_loops_stay_whole_in_eager(function: Callable[..., Any]) -> None:
    report = run(function, X)
    assert not report.graphs
    (fallback,) = report.fallbacks
    assert fallback.stage == "capture"


def test_what_is_made_in_the_function_is_left_to_torch() -> None:
    run(by_name, X)


def test_the_turns_are_told_as_such() -> None:
    report = run(plain, X)
    assert [(r.variable, r.expected, r.actual) for r in report.recompiles] == [
        ("the loop", str(left), str(left - 1)) for left in (4, 3, 2, 1)
    ]
    assert report.recompiles[0].guard == "turns left of the loop == 4"


def test_a_loop_is_captured_through_an_engine() -> None:
    pytest.importorskip("onnxruntime")
    report = run(enumerated, X, backend="onnxrt")
    assert len(report.graphs) == 3
    assert not [f for f in report.fallbacks if f.stage != "unsupported"]


def test_a_users_own_compile_leaves_the_loop_to_eager() -> None:
    run(plain, X)
    torch._dynamo.reset()
    counter = CompileCounter()
    with torch.no_grad():
        torch.compile(plain, backend=counter)(X)
    assert counter.frame_count == 0


def test_new_inputs_take_the_same_exits_as_eager() -> None:
    def exits(x: torch.Tensor) -> tuple[torch.Tensor, int]:
        number = 0
        for number, layer in enumerate(FEW):  # noqa: B007 - the last one is the result
            x = layer(x)
            if x.square().mean().item() < 0.15:
                break
        return x, number

    fast = dynamo_ext.optimize("eager")(exits)
    seen = set()
    with torch.no_grad():
        for seed in range(20):
            torch.manual_seed(seed)
            x = torch.randn(3, 4) * 2
            found, number = fast(x)
            expected, last = exits(x)
            torch.testing.assert_close(found, expected)
            assert number == last
            seen.add(number)
    assert len(seen) > 1
    report = fast.report()
    # A version for each turn and one for its numbers, however many inputs come.
    assert not report.fallbacks
    assert len(report.graphs) <= 3 * len(FEW)


def test_a_builtin_that_holds_itself_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    held: dict[str, Any] = {}
    held["self"] = held
    monkeypatch.setattr(builtins, "held", held, raising=False)
    assert len(run(enumerated, X).graphs) == 3
