"""Graphs that only change tensors in place are eager's; others are not mistaken for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.backends.pipeline import inplace_only
from tests.needs import needs_backend

OPTIMIZERS: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "SGD": lambda weights: torch.optim.SGD(weights, lr=0.1, momentum=0.9, weight_decay=0.1),
    "Adam": lambda weights: torch.optim.Adam(weights, lr=0.1),
    "AdamW": lambda weights: torch.optim.AdamW(weights, lr=0.1),
    "RMSprop": lambda weights: torch.optim.RMSprop(weights, lr=0.1),
    "NAdam": lambda weights: torch.optim.NAdam(weights, lr=0.1),
    "RAdam": lambda weights: torch.optim.RAdam(weights, lr=0.1),
    "Rprop": lambda weights: torch.optim.Rprop(weights, lr=0.1),
}


def reasons(report: dynamo_ext.Report) -> set[str]:
    return {f.message for f in report.fallbacks if f.stage == "unsupported"}


def learners() -> list[torch.Tensor]:
    torch.manual_seed(0)
    weights = [torch.randn(4, 8, requires_grad=True), torch.randn(8, requires_grad=True)]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    return weights


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_step_of_an_optimizer_is_eagers_and_told(name: str, scripted: Any) -> None:
    ours, plain = learners(), learners()
    fast = OPTIMIZERS[name](ours)
    slow = OPTIMIZERS[name](plain)
    step = dynamo_ext.optimize(scripted)(lambda: fast.step())  # noqa: PLW0108 - Dynamo wants a function
    for _ in range(3):
        step()
        slow.step()
    torch.testing.assert_close(ours, plain)
    report = step.report()
    assert reasons(report) == {inplace_only.REASON}
    assert any("-b inductor" in f.remedy for f in report.fallbacks)
    # What the first step of SGD makes, momentum, is a result.
    assert not report.graphs[-1].partitions


def test_squares_are_added_as_eager_adds_them() -> None:
    """Dynamo would write ``addcmul_`` as a multiplication and ``prims.fma``."""

    def moments(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        return kept.mul_(0.9).addcmul_(x, x, value=0.1)

    x, kept = torch.randn(8), torch.randn(8)
    fast = dynamo_ext.optimize("eager")(moments)
    expected = moments(x, kept.clone())
    assert torch.equal(fast(x, kept), expected)
    (graph,) = fast.report().graphs
    assert not any("fma" in operation.target for operation in graph.operations)


@pytest.mark.parametrize("engine", ["onnxrt", "xla", "tvm"])
def test_under_torch_compile_it_is_no_operator_that_engines_lack(engine: str) -> None:
    needs_backend(engine)

    def moments(x: torch.Tensor, kept: torch.Tensor) -> torch.Tensor:
        kept.mul_(0.9).addcmul_(x, x, value=0.1)
        return kept.sum() + 1

    x, kept = torch.randn(8), torch.randn(8)
    other = kept.clone()
    expected = moments(x, kept)
    torch.testing.assert_close(torch.compile(moments, backend=f"dx_{engine}")(x, other), expected)
    torch.testing.assert_close(other, kept)


@pytest.mark.parametrize(
    "change",
    [
        lambda x: x.add_(1) + 1,
        lambda x: x.copy_(x @ x),
        lambda x: x.sub_(x.mean()),
        lambda x: [x.sin_().mul_(2) for _ in range(5)] and None,
    ],
    ids=["returns more", "a product", "a mean", "many operations"],
)
def test_an_engine_takes_the_rest(change: Callable[[torch.Tensor], Any], scripted: Any) -> None:
    x = torch.randn(4, 4)
    y = x.clone()
    fast = dynamo_ext.optimize(scripted)(change)
    expected = change(x)
    found = fast(y)
    torch.testing.assert_close(y, x)
    if expected is not None:
        torch.testing.assert_close(found, expected)
    assert inplace_only.REASON not in reasons(fast.report())
    assert any(p.engine != "eager" for g in fast.report().graphs for p in g.partitions)
