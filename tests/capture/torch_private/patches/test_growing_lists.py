"""Lists that grow from call to call: no version of the code for each length."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from tests.needs import captures_less

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.records.report import Report

CALLS = 12
"""More than torch's recompile limit."""


class Trainer:
    def __init__(self) -> None:
        self.log: list[Any] = []

    def numbers(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        self.log.append(y.sum().item())
        return y.cos()

    def tensors(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        self.log.append(y.sum())
        return y.cos()

    def several(self, x: torch.Tensor) -> torch.Tensor:
        y = x.sin()
        self.log += [y.sum().item(), 1]
        self.log.extend([None])
        return y.cos()

    def read(self, x: torch.Tensor) -> tuple[torch.Tensor, Any]:
        y = x.sin()
        last = self.log[-1] if self.log else None
        self.log.append(float(len(self.log)))
        z = y.cos() * len(self.log)
        return z, (last, sum(self.log), [v * 2 for v in self.log], list(reversed(self.log)))

    def stacked(self, x: torch.Tensor) -> torch.Tensor:
        self.log.append(x.sin())
        return torch.stack(self.log).sum(0).cos()

    def tried(self, x: torch.Tensor) -> tuple[torch.Tensor, str]:
        y = x.sin()
        self.log.append(1)
        try:
            self.log.nothing()
        except AttributeError as error:
            return y.cos(), type(error).__name__
        return y, ""


def run(name: str) -> Report:
    """Call a method of two trainers, plainly and captured; results and logs are the same."""
    plain, captured = Trainer(), Trainer()
    fast: Callable[..., Any] = dynamo_ext.optimize("eager")(getattr(captured, name))
    for seed in range(CALLS):
        torch.manual_seed(seed)
        x = torch.randn(4)
        expected, found = getattr(plain, name)(x), fast(x)
        assert str(found) == str(expected)
        assert str(captured.log) == str(plain.log)
    return fast.report()


@pytest.mark.parametrize(
    "name",
    [pytest.param("numbers", marks=captures_less("2.13", "recompiles for each number")), "tensors"],
)
def test_a_function_that_appends_is_compiled_a_few_times(name: str) -> None:
    report = run(name)
    assert not report.fallbacks
    assert len(report.graphs) <= 10
    assert max(graph.calls for graph in report.graphs) >= CALLS - 5


@pytest.mark.parametrize("name", ["several", "read", "stacked", "tried"])
def test_whatever_is_done_with_a_growing_list_is_as_in_eager(name: str) -> None:
    run(name)


def test_lists_of_other_lengths_have_versions_of_their_own() -> None:
    def total(tensors: list[torch.Tensor]) -> torch.Tensor:
        return torch.stack([t.sin() for t in tensors]).sum(0)

    x = torch.ones(3)
    fast = dynamo_ext.optimize("eager")(total)
    for length in (1, 4, 2, 4, 1, 2):
        torch.testing.assert_close(fast([x] * length), total([x] * length))
    report = fast.report()
    assert not report.fallbacks
    assert len(report.graphs) == 3
