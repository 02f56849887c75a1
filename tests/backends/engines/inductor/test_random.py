"""Random numbers under ``inductor``: eager's, values, gradients and the generator's state."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

import dynamo_ext

if TYPE_CHECKING:
    from collections.abc import Callable

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")

torch.manual_seed(0)
LINEAR, X = nn.Linear(16, 16), torch.randn(2, 6, 16)
ATTENTION = nn.MultiheadAttention(16, 2, dropout=0.3, batch_first=True)
LAYERS = nn.Sequential(nn.Linear(16, 16), nn.Dropout(0.5), nn.RReLU(), nn.Linear(16, 16))


def attends(x: torch.Tensor) -> torch.Tensor:
    heads = LINEAR(x).view(2, 6, 2, 8).transpose(1, 2)
    return functional.scaled_dot_product_attention(heads, heads, heads, dropout_p=0.3)


def draws(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = torch.softmax(x[0], -1)
    return (
        torch.randint(0, 100, (5,)) + x.shape[0],
        torch.rand(70) * 2,
        torch.randn_like(x) + 1,
        torch.bernoulli(y),
        torch.multinomial(y, 3),
        x.clone().normal_(1, 2),
        torch.randperm(9) * 2,
    )


FUNCTIONS: list[Callable[..., Any]] = [
    draws,
    attends,
    lambda x: ATTENTION(x, x, x)[0],
    LAYERS.__call__,
    lambda x: checkpoint(LAYERS, LINEAR(x), use_reentrant=False),
    lambda x: functional.dropout(LINEAR(x).transpose(0, 1), 0.5) * torch.rand(16),
    lambda x: torch.bernoulli(LINEAR(x).sigmoid()),
]


def outcome(run: Callable[..., Any], *, grad: bool) -> list[Any]:
    """What three calls give, the gradients, and where the generator then is."""
    torch.manual_seed(7)
    leaves = [*LINEAR.parameters(), *ATTENTION.parameters(), *LAYERS.parameters()]
    found: list[Any] = []
    for leaf in leaves:
        leaf.grad = None
    for _ in range(3):
        with torch.set_grad_enabled(grad):
            given = run(X)
        results = given if isinstance(given, tuple) else (given,)
        found += [each.detach() for each in results]
        if results[0].requires_grad:
            results[0].square().sum().backward()
    return [*found, *(leaf.grad for leaf in leaves), torch.get_rng_state()]


@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.parametrize("function", FUNCTIONS)
def test_values_gradients_and_state_are_eagers(function: Callable[..., Any], grad: bool) -> None:
    def called(x: torch.Tensor) -> Any:
        return function(x)

    expected = outcome(called, grad=grad)
    compiled = dynamo_ext.optimize("inductor")(called)
    found = outcome(compiled, grad=grad)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    report = compiled.report()
    assert report.graphs
    assert not report.fallbacks
    assert not torch._inductor.config.fallback_random


def test_those_of_torch_are_named_in_the_report_and_in_the_row() -> None:
    def dropped(x: torch.Tensor) -> torch.Tensor:
        return functional.dropout(x * 2, 0.5)

    options = {"random": "torch"}
    compared = dynamo_ext.compare(dropped, (X,), "inductor", options=options, rounds=1)
    row = next(each for each in compared.record.candidates if each.backend == "inductor")
    assert row.outcome == "wrong"
    assert "random" in row.reason
    assert "--opt random=torch" in row.remedy
    compiled = dynamo_ext.optimize("inductor", options=options)(dropped)
    compiled(X)
    [told] = compiled.report().fallbacks
    assert (told.stage, told.harmless) == ("random", True)
    compiled = dynamo_ext.optimize("inductor", options=options)(torch.tanh)
    compiled(X)
    assert not compiled.report().fallbacks


@pytest.mark.usefixtures("fresh_caches")
def test_a_second_backward_pass_does_not_run_what_torch_has_compiled_for_one() -> None:
    def scaled(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.cos()).exp().sigmoid()

    def gradients(run: Callable[..., Any]) -> list[torch.Tensor]:
        x = torch.linspace(-1, 1, 8).requires_grad_()
        y = run(x).sum()
        return [torch.autograd.grad(y, x, retain_graph=keep)[0] for keep in (True, False)]

    # Its code, which may write to what is saved, is on disk then.
    x = torch.linspace(-1, 1, 8).requires_grad_()
    torch.compile(scaled)(x).sum().backward()
    torch._dynamo.reset()
    compiled = dynamo_ext.optimize("inductor", options={"random": "torch"})(scaled)
    torch.testing.assert_close(gradients(compiled), gradients(scaled))


@pytest.fixture
def fresh_caches(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", os.fspath(tmp_path))
