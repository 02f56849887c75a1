"""A graph whose gradients are differentiated runs as it is, and the report says why."""

from __future__ import annotations

import pytest
import torch

from dynamo_ext.capture.listen.double_backward import MESSAGE
from tests.capture.live import Live

NOTEBOOK = """
torch.manual_seed(0)
net = torch.nn.Sequential(
    torch.nn.Linear(4, 8), torch.nn.Softplus(), torch.nn.Linear(8, 2)
)
x = torch.randn(3, 4, requires_grad=True)

def penalty(x):
    out = net(x)
    (slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()
"""
WRITTEN_OUT = """
out = net(x)
(slope,) = torch.autograd.grad(out.sum(), x, create_graph=True)
((slope.norm(2, dim=1) - 1) ** 2).mean().backward()
"""


@pytest.mark.parametrize("text", [WRITTEN_OUT, "penalty(x).backward()"])
@pytest.mark.parametrize("backend", ["aot_eager", "ts"])
def test_a_gradient_penalty_is_eager_s(cells: Live, backend: str, text: str) -> None:
    wanted = []
    for magic in ("", f"%%dynamo -b {backend} --quiet\n"):
        cells.well("x.grad = None\nfor p in net.parameters(): p.grad = None")
        for _ in range(2):
            cells.well(magic + text)
        wanted.append([p.grad for p in cells.names["net"].parameters()])
    for plain, mine in zip(*wanted, strict=True):
        torch.testing.assert_close(mine, plain)
    report = cells.report(text, f"-b {backend}")
    assert MESSAGE in {fallback.message for fallback in report.fallbacks}


def test_plain_training_is_compiled(cells: Live) -> None:
    report = cells.report("net(x).sum().backward()", "-b aot_eager")
    assert MESSAGE not in {fallback.message for fallback in report.fallbacks}
    assert report.graphs


def test_a_later_cell_that_asks_is_told_what_to_do(cells: Live) -> None:
    cells.well("%%dynamo -b aot_eager --quiet\nloss = net(x).exp().pow(2).sum()")
    cells.well("(slope,) = torch.autograd.grad(loss, x, create_graph=True)")
    error = cells.run("slope.sum().backward()").error
    assert "under -b eager" in str(error)
