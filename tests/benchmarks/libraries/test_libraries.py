"""Models of libraries: what is compared, the page, and what is installed."""

from __future__ import annotations

from argparse import Namespace

import pytest
import torch

import dynamo_ext
from benchmarks.libraries import run, table
from benchmarks.libraries.models import MODELS, Model, Run
from benchmarks.libraries.run import Row, measure, results

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


def test_the_page() -> None:
    rows = [
        Row("onnxrt: GIN", status="right", library="a 1.0", graphs=2, breaks=1, operations=10,
            in_engine=9, refused=("aten.topk",), seconds=1.25),
        Row("onnxrt: rk4", "gradients: 3 of 4 values are off", "wrong", "b 2.0", graphs=1, operations=5, in_engine=5,
            faults=("run: InvalidGraph no",), seconds=0.75),
        Row("openvino: rk4", "The process was ended by SIGSEGV."),
    ]  # fmt: skip
    page = table.page(rows, "Measured with: a machine.")
    assert "| `onnxrt` | 2 | 1 | 1 | 0 | 0 | 95.0% | 1 | 1 | 1 | 1.0 |" in page
    assert "| `openvino` | 1 | 0 | 0 | 0 | 1 | – | 0 | 0 | 0 | 0.0 |" in page
    assert "| GIN | a 1.0 | `onnxrt` | right | 90% | 2 | 1 | 1.2 |" in page
    assert "| rk4 | `openvino` | died | The process was ended by SIGSEGV. |" in page
    assert "| rk4 | `onnxrt` | run: InvalidGraph no |" in page
    assert "| `onnxrt` | `aten.topk` | 1 |" in page
    assert "Measured with: a machine." in page
    assert "Nothing." in table.page(rows[:1], "")
    assert Row.from_dict(rows[1].to_dict()) == rows[1]
