"""Small products in sequence, which OpenVINO fuses: where that would end the process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.engines.openvino import convert, sequences
from tests.backends.own_process import silent

RUNGE_KUTTA = """
import torch, dynamo_ext
from torch import nn
torch.set_num_threads(1)
def same(fn, *inputs):
    fast = dynamo_ext.optimize("openvino", options={"min_partition": 1})(fn)
    with torch.no_grad():
        torch.testing.assert_close(fast(*inputs), fn(*inputs))
    report = fast.report()
    assert {p.engine for g in report.graphs for p in g.partitions} == {"openvino"}
    assert not report.fallbacks
n = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 4)).eval()
def step(t, dt, y):
    k1 = n(y); k2 = n(y + dt * k1 / 3); k3 = n(y + dt * (k2 - k1 / 3)); k4 = n(y + dt * (k1 - k2 + k3))
    return (k1 + 3 * (k2 + k3) + k4) * dt * .125
same(step, torch.tensor(0.), torch.tensor(.25), torch.randn(3, 4))
"""

RELATIVES = """
x, w = torch.randn(4, 16), nn.Parameter(torch.randn(16, 16) / 4)
class Two(nn.Module):
    def __init__(self, between, after):
        super().__init__()
        self.first, self.second, self.between, self.after = w, nn.Linear(16, 16), between, after
    def forward(self, x):
        y = self.after(self.second(self.between(x @ self.first)))
        return y + x.tanh(), y
for between in (nn.ReLU(), nn.GELU(), nn.Hardswish(), nn.BatchNorm1d(16), nn.Identity()):
    for after in (nn.Identity(), nn.Sigmoid()):
        same(Two(between, after).eval(), x)
def joined(x):
    y = torch.cat([(x @ w).tanh()], 0) @ w
    return y + x.tanh(), y
def added(x):
    y = torch.addmm(x.sin(), (x @ w).tanh(), w)
    return y * x.tanh(), y
def minus_input(x):
    return (((x @ w).tanh() @ w) - x) @ w
same(joined, x)
same(added, x)
same(minus_input, x)
same(nn.Sequential(nn.Linear(16, 1), nn.Tanh(), nn.Linear(1, 1)).eval(), x)
"""


def test_a_result_of_fused_products_may_meet_another_one() -> None:
    silent(RUNGE_KUTTA + RELATIVES)


class Layers(nn.Module):
    """Products with weights; one in sequence with the other."""

    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.first = nn.Linear(4, width)
        self.second = nn.Linear(width, 4)
        self.requires_grad_(requires_grad=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.second(self.first(x).tanh())  # type: ignore[no-any-return]


LAYERS = Layers()


def _meets(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = LAYERS(x)
    return y + x.sin(), y


@pytest.mark.parametrize(
    ("fn", "rows", "added"),
    [
        (_meets, 4, 1),
        (_meets, 17, 0),
        (lambda x: (LAYERS(x),), 4, 0),
        (lambda x: (LAYERS(x) + x,), 4, 0),
        (lambda x: (LAYERS(x).relu(),), 4, 0),
        (lambda x: (LAYERS(LAYERS(x)),), 4, 0),
        (lambda x: (LAYERS(x) * LAYERS(x + 1),), 4, 2),
        (lambda x: (LAYERS(LAYERS(x) - x),), 4, 1),
    ],
)
def test_only_where_it_must_a_product_is_not_fused(fn: Any, rows: int, added: int) -> None:
    graph = make_fx(fn, decomposition_table=torch._decomp.core_aten_decompositions())(
        torch.randn(rows, 4)
    )
    graph = convert.prepare(graph)
    own = len(graph.graph.output_node().args[0])
    places = sequences.divide(graph)
    assert places == range(own, own + added)
    assert len(graph.graph.output_node().args[0]) == own + added


def test_weights_that_are_inputs_are_not_fused() -> None:
    def two(x: torch.Tensor, v: torch.Tensor, w: torch.Tensor) -> tuple[torch.Tensor, ...]:
        y = (x @ v).tanh() @ w
        return y + x.sin(), y

    graph = convert.prepare(make_fx(two)(torch.randn(4, 4), torch.randn(4, 8), torch.randn(8, 4)))
    assert not sequences.divide(graph)
