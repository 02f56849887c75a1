"""Models of libraries: what is compared, and what a step that goes wrong is called."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

import dynamo_ext
from benchmarks.libraries import run
from benchmarks.libraries.models import MODELS, Model, Run
from benchmarks.libraries.run import measure, results

NET = Run(lambda net, x: {"out": net(x).tanh(), "number": 2}, torch.nn.Linear(3, 2))


def test_results_are_outputs_and_gradients_of_weights_and_inputs() -> None:
    x = torch.randn(4, 3)
    (out,) = results(NET, NET, [x], gradients=False)
    assert out.shape == (4, 2)
    found = results(NET, NET, [x], gradients=True)
    assert [tuple(t.shape) for t in found] == [(4, 2), (2, 3), (2,), (4, 3)]
    given = x.clone().requires_grad_()
    NET(given)["out"].square().mean().backward()
    assert torch.equal(found[3], given.grad)
    assert not x.requires_grad


class Faulty:
    """An engine whose call of a number is another one's, or raises; its report is of another."""

    def __init__(self, at: int, *, raises: bool) -> None:
        self.at, self.raises, self.calls = at, raises, 0
        other = dynamo_ext.optimize("eager")(NET)
        other(torch.ones(1, 3))
        self.report = other.report

    def __call__(self, x: torch.Tensor) -> object:
        self.calls += 1
        if self.calls == self.at and self.raises:
            raise KeyError
        return NET(x * 1.5 if self.calls == self.at else x)


@pytest.mark.parametrize(
    ("at", "raises", "status", "said"),
    [
        (0, False, "right", ""),
        (3, False, "wrong", "other batch size: "),
        (4, False, "wrong", "gradients: "),
        (2, True, "failed", "other input: KeyError: "),
    ],
)
def test_a_step_that_goes_wrong_is_named(
    monkeypatch: pytest.MonkeyPatch, at: int, raises: bool, status: str, said: str
) -> None:
    model = Model("numpy", lambda: NET, lambda batch: (torch.randn(batch, 3),))
    monkeypatch.setitem(MODELS, "net", model)
    faulty = Faulty(at, raises=raises)
    monkeypatch.setattr(run.dynamo_ext, "optimize", lambda *_, **__: lambda _: faulty)
    row = measure("eager: net", Namespace())
    assert row.status == status
    assert row.error.startswith(said)
    assert row.library.startswith("numpy ")
    assert row.graphs == 1
