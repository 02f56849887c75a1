"""Numbers that a graph break gives: carried along, whatever their values are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.torch_private import version
from tests.capture.live import live
from tests.needs import needs_feature

needs_feature(version.NUMBERS)

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.report import Report

CALLS = 12
"""More than torch's recompile limit."""


def run(function: Callable[..., Any], *more: Any) -> Report:
    """Call with new inputs each time, as eager does."""
    fast = dynamo_ext.optimize("aot_eager")(function)
    for seed in range(CALLS):
        torch.manual_seed(seed)
        x = torch.randn(4)
        try:
            expected = function(x, *more)
        except (ZeroDivisionError, OverflowError, ValueError) as error:
            with pytest.raises(type(error), match=str(error)[:10]):
                fast(x, *more)
        else:
            found = fast(x, *more)
            assert str(found) == str(expected)
    return fast.report()


def given(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    y = x.sin()
    value = y.sum().item()
    return y.cos(), value


def listed(x: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    found: list[float] = []
    y = x.sin()
    found.append(y.sum().item())
    y = y.cos()
    found.append(y.sum().item())
    return y.tan(), found


def named(x: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
    found = {}
    y = x.sin()
    found["first"] = y.sum().item()
    y = y.cos()
    found.update(last=y.sum().item())
    return y.tan(), found


def added(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    total = 0.0
    y = x.sin()
    total += y.sum().item()
    y = y.cos()
    total += 2 * y.sum().item() - 1
    y = y.tan()
    return y, total


def compared(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    value = x.sin().sum().item()
    y = x.cos()
    how = "none"
    if value > 0.5:
        y, how = y * 2, "large"
    elif not 1 > value > -1:
        y, how = y * 3, "small"
    return y.tan(), how


def told(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    value = x.sum().item()
    y = x.cos()
    text = f"{value:.3f} of {x.shape[0]}"
    return y.sin(), text


def to_method(x: torch.Tensor) -> tuple[torch.Tensor, set[float]]:
    seen = {1.5}
    seen.add(round(x.sum().item(), 2))
    return x.cos(), seen


@pytest.mark.parametrize(
    "function", [given, listed, named, added, compared, told], ids=lambda f: f.__name__
)
def test_what_goes_on_after_a_number_compiles_no_more_than_twice(
    function: Callable[..., Any],
) -> None:
    report = run(function)
    assert not report.fallbacks
    assert sum(r.count for r in report.recompiles) <= 6
    # The newest graph of each place still runs at the last call.
    assert len(report.graphs) <= 8
    assert max(graph.calls for graph in report.graphs) >= CALLS - 3


def computed_with(x: torch.Tensor) -> torch.Tensor:
    y = x.sin()
    scale = y.sum().item()
    return y.cos() * scale


def divided(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    value = float(x.round()[0].item())
    y = x.cos()
    try:
        one = 1 / value
    except ZeroDivisionError:
        one = -1.0
    return y, one


def raised(x: torch.Tensor) -> tuple[torch.Tensor, float]:
    value = float(x.round()[0].item())
    y = x.cos()
    return y, 1 / value


def while_large(x: torch.Tensor) -> tuple[torch.Tensor, int]:
    turns = 0
    while x.abs().sum().item() > 1:
        x = x * 0.5
        turns += 1
    return x.sin(), turns


def either_method(x: torch.Tensor) -> tuple[torch.Tensor, list[float]]:
    kept = [0.5, 1.5]
    number = round(x.sum().item())
    (kept.append if number % 2 else kept.extend)([round(x.mean().item(), 3)])
    return x.cos(), kept


def refused(x: torch.Tensor) -> tuple[torch.Tensor, str]:
    value = x.sum().item()
    y = x.cos()
    try:
        y = y + value.nothing
    except AttributeError as error:
        return y, type(error).__name__
    return y, ""


def mixed(x: torch.Tensor) -> tuple[torch.Tensor, list[Any]]:
    value = x.sum().item()
    y = x.cos()
    return y.sin(), [
        repr(value),
        f"{value!r}",
        value == None,  # noqa: E711
        value != "a",
        -value,
        abs(value),
        value**2,
        int(value * 10),
        bool(value),
        value.is_integer(),
        value.real,
        isinstance(value, float),
        type(value) is float,
        max(value, 0.0),
        [1, 2, 3][int(abs(value)) % 3],
        value + 10**400 if value > 1e9 else value * 10,
    ]


@pytest.mark.parametrize(
    "function",
    [computed_with, divided, raised, while_large, to_method, either_method, refused, mixed],
    ids=lambda f: f.__name__,
)
def test_whatever_is_done_with_a_number_is_as_in_eager(function: Callable[..., Any]) -> None:
    run(function)


def test_the_remedy_for_computing_with_one_is_a_tensor() -> None:
    (fallback,) = run(computed_with).fallbacks
    assert "changes from call to call" in fallback.message
    assert ".detach()" in fallback.remedy


def test_nan_and_infinity_compare_as_in_eager() -> None:
    def sorted_out(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        value = x.sum().item()
        y = x.cos()
        if value != value:  # noqa: PLR0124
            return y, "nan"
        return y.sin(), "infinite" if value == float("inf") else "finite"

    fast = dynamo_ext.optimize("aot_eager")(sorted_out)
    for value in (1.0, 2.0, float("nan"), float("inf"), 3.0, float("nan"), -float("inf")):
        x = torch.full((2,), value)
        found, said = fast(x)
        expected, meant = sorted_out(x)
        assert said == meant
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_a_number_that_waits_while_the_graph_breaks_is_not_guarded_on() -> None:
    with live("x, total = torch.ones(2), 0.0") as cells:
        for _ in range(CALLS):
            report = cells.report("x = x + 1\nloss = x.sum()\ntotal += loss.item()")
    assert (len(report.graphs), report.recompiles, report.fallbacks) == (1, (), ())
