"""What every engine is put through: small functions about one trait each, and small models."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import nn

from dynamo_ext.backends import registry
from dynamo_ext.errors import BackendUnavailableError

F = nn.functional


class Attention(nn.Module):
    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.mix = nn.MultiheadAttention(width, 2, batch_first=True)
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.wide = nn.Sequential(nn.Linear(width, 32), nn.GELU(), nn.Linear(32, width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.first(x)
        x = x + self.mix(y, y, y, need_weights=False)[0]
        return x + self.wide(self.second(x))


class Recurrent(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cell, self.out = nn.LSTM(8, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.out(self.cell(x)[0][:, -1])


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4)).eval()


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 5),
    ).eval()  # fmt: skip


def twice(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x.exp() + 1
    return y, y, y.clone(), y.view(-1)


def inplace(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 5
    y.mul_(2).add_(x)
    return y


def views(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y = x * 2
    return y.t(), y[0], y.reshape(-1), x.t(), y[:, -1] + 1, y[-2:]


def same(found: Any, expected: Any) -> None:
    assert type(found) is type(expected)
    if isinstance(expected, (tuple, list)):
        assert len(found) == len(expected)
        for a, b in zip(found, expected, strict=True):
            same(a, b)
    elif isinstance(expected, torch.Tensor):
        loose = expected.dtype in (torch.float16, torch.bfloat16)
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if loose else {"rtol": 1e-4, "atol": 1e-5}
        exact = not expected.is_floating_point() and not expected.is_complex()
        tolerance = {"rtol": 0, "atol": 0} if exact else tolerance
        torch.testing.assert_close(found, expected, equal_nan=True, **tolerance)
        assert found.stride() == expected.stride()
    else:
        assert found == expected


def gives_what_eager_gives(
    harness: Any, compiler: Any, case: tuple[Any, tuple[Any, ...]], calls: int = 3
) -> None:
    """Compile a case of a zoo and call it; only what an engine refuses may have stayed in eager."""
    fn, args = case
    compiled = harness.compile(fn, compiler)
    expected = fn(*args)
    for _ in range(calls):
        same(compiled(*args), expected)
    assert set(harness.stages) <= {"unsupported"}


def takes_whole(harness: Any, compiler: Any, case: tuple[Any, tuple[Any, ...]]) -> None:
    """Compile a case of a zoo: each of its operations is in the engine."""
    fn, args = case
    with torch.no_grad():
        harness.compile(fn, compiler)(*args)
    assert harness.engines == {compiler.backend.name: harness.journal.normalised}


def follows_its_weights(harness: Any, compiler: Any, make: Any, draw: Any) -> None:
    """Compile a model: it is in the engine as one part, also after its weights were changed."""
    model = make().eval()
    compiled = harness.compile(model, compiler)
    with torch.no_grad():
        for calls in (3, 2):
            for _ in range(calls):
                x = draw()
                same(compiled(x), model(x))
            for parameter in model.parameters():
                parameter.mul_(1.5)
    assert set(harness.engines) == {compiler.backend.name}
    assert not harness.stages


def has_eagers_gradients(
    harness: Any, compiler: Any, models: tuple[nn.Module, nn.Module], draw: Any, rtol: float = 1e-3
) -> None:
    """Train a model and its twin; only what an engine refuses may have stayed in eager."""
    model, twin = models
    twin.load_state_dict(model.state_dict())
    compiled = harness.compile(model, compiler)
    for seed in range(2):
        x = draw()
        for each in (compiled, twin):
            torch.manual_seed(seed)
            each(x).square().mean().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=rtol, atol=rtol / 100)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert set(harness.stages) <= {"unsupported"}


def error(found: torch.Tensor, exact: torch.Tensor) -> float:
    """How far results are off, of their size."""
    return float((found - exact).norm() / exact.norm())


def is_unavailable(harness: Any, name: str, reason: str) -> None:
    """It says why where it must be here; elsewhere what it is given runs eagerly."""
    with pytest.raises(BackendUnavailableError, match=reason):
        registry.compiler(name, strict=True)
    x = torch.randn(3)
    torch.testing.assert_close(harness.compile(torch.sin, registry.compiler(name))(x), x.sin())
    assert harness.stages == ["unavailable"]


def square(x: torch.Tensor) -> tuple[torch.Tensor]:
    return (torch.ops.aten.mul.Tensor(x, x),)


def lowered(engine: str, fn: Any, example: torch.Tensor) -> Any:
    """What an engine makes of a function whose values are all like an example."""
    graph = torch.fx.symbolic_trace(fn)
    for node in graph.graph.nodes:
        node.meta["val"] = example
    return registry.get(engine).lower(graph, [example], {})


def node_of(op: Any, value: torch.Tensor, *rest: Any) -> torch.fx.Node:
    """A call of an operator in a graph of its own, with what it gives in its ``meta``."""
    graph = torch.fx.Graph()
    x = graph.placeholder("x")
    x.meta["val"] = value
    y = graph.call_function(op, (x, *rest))
    y.meta["val"] = op(value, *rest) if value.device.type == "cpu" else value
    if isinstance(y.meta["val"], tuple):
        graph.call_function(operator.getitem, (y, 0)).meta["val"] = y.meta["val"][0]
    return y


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "float32": (lambda x: (x @ x.t()).softmax(-1), (torch.randn(4, 4),)),
    "float64": (lambda x: x.cos() * 2 + x.mean(), (torch.randn(4, 4, dtype=torch.float64),)),
    "float16": (lambda x: torch.relu(x @ x) + 1, (torch.randn(4, 4).half(),)),
    "bfloat16": (lambda x: torch.relu(x @ x) + 1, (torch.randn(4, 4).bfloat16(),)),
    "int64": (lambda x: x * 3 // 2 - x.sum(), (torch.arange(-5, 7),)),
    "overflow": (lambda x: x * x + x, (torch.tensor([2**40, -3, 2**31]),)),
    "int32": (lambda x: (x + 1) * x, (torch.tensor([2**31 - 1, 2**24 + 1, -7]).int(),)),
    "uint8": (lambda x: x.float() / 255, (torch.arange(250, 256, dtype=torch.uint8),)),
    "bool": (lambda x, y: x & ~y | y, (torch.tensor([True, False]), torch.tensor([True, True]))),
    "comparison": (lambda x: torch.where(x > 0, x, -1.0), (torch.randn(5),)),
    "mixed": (lambda x, i: x * i + 1.5, (torch.randn(4), torch.arange(4))),
    "complex": (lambda x: (x * 1j).real + 1, (torch.randn(4),)),
    "zero-dim": (lambda x: x * x + 1, (torch.tensor(3.0),)),
    "empty": (lambda x: torch.cat([x * 2, x]), (torch.empty(0, 4),)),
    "empty-sum": (lambda x: x.sum(0) + 1, (torch.empty(0, 4),)),
    "strided": (lambda x: x.exp() + x, (torch.randn(6, 8)[::2, 1::3],)),
    "transposed": (lambda x: x.exp() + x, (torch.randn(4, 6).t(),)),
    "expanded": (lambda x: x.exp() + x, (torch.randn(4, 1).expand(4, 6),)),
    "channels-last": (
        lambda x: torch.relu(x) + 1,
        (torch.randn(2, 3, 4, 4).to(memory_format=torch.channels_last),),
    ),
    "alpha": (
        lambda x: torch.add(x, x.exp(), alpha=2) - torch.sub(x, 1, alpha=3),
        (torch.randn(4),),
    ),
    "twice": (twice, (torch.randn(3),)),
    "number": (lambda x, k: (x * k, k, None, x), (torch.randn(3), 4)),
    "returned": (lambda x: (x, x + 1), (torch.randn(3),)),
    "identity": (lambda x: x, (torch.randn(3),)),
    "copied": (lambda x: (x.clone(), x * 1, x + 0), (torch.randn(3),)),
    "constants": (lambda x: (torch.full((2, 2), 3.0), x.new_ones(3)), (torch.randn(3),)),
    "views": (views, (torch.randn(3, 3),)),
    "inplace": (inplace, (torch.randn(3, 3),)),
    "gather": (lambda x, i: x.gather(1, i), (torch.randn(3, 3), torch.tensor([[0, 2], [1, 0]]))),
    "index": (lambda x, i: x[i], (torch.randn(5, 3), torch.tensor([-1, 0, 4]))),
    "mask": (lambda x: x.masked_fill(x > 0, 0.0), (torch.randn(5),)),
    "topk": (lambda x: torch.topk(x, 2), (torch.randn(3, 7),)),
    "sort": (lambda x: torch.sort(x, dim=-1), (torch.randn(3, 7),)),
    "kthvalue": (lambda x: torch.kthvalue(x, 2), (torch.randn(3, 7),)),
    "cumsum": (lambda x: x.cumsum(1) + 1, (torch.randn(3, 7),)),
    "split": (lambda x: x.split(2, 1), (torch.randn(3, 6),)),
    "norms": (lambda x: F.layer_norm(x, (6,)), (torch.randn(3, 6),)),
    "pad": (lambda x: F.pad(x, (1, 2)) * 2, (torch.randn(3, 6),)),
    "reflect": (lambda x: F.pad(x, (1, 2), mode="reflect") * 2, (torch.randn(1, 3, 6),)),
    "var": (lambda x: x.var(1) + x.std(1), (torch.randn(3, 6),)),
    "interpolate": (
        lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"),
        (torch.randn(1, 2, 4, 4),),
    ),
    "attention": (
        lambda q: F.scaled_dot_product_attention(q, q, q).contiguous(),
        (torch.randn(1, 2, 5, 8),),
    ),
    "causal": (
        lambda q: F.scaled_dot_product_attention(q, q, q, is_causal=True).contiguous(),
        (torch.randn(1, 2, 5, 8),),
    ),
    "masked row": (
        lambda q, m: F.scaled_dot_product_attention(q, q, q, attn_mask=m).contiguous() + 1,
        (torch.randn(1, 2, 3, 8), torch.zeros(3, 3).bool()),
    ),
    "nan": (
        lambda x: (torch.relu(x), x.clamp(-1, 1), x.log() + 1),
        (torch.tensor([torch.nan, -1.0, 0.0, 1.0, torch.inf]),),
    ),
    "nan in a window": (
        lambda x: F.max_pool2d(torch.relu(x), 2, padding=1) + 1,
        (torch.tensor([torch.nan, *range(15)]).reshape(1, 1, 4, 4),),
    ),
}

MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (3, 8)),
    "cnn": (cnn, (2, 3, 8, 8)),
    "attention": (Attention, (2, 5, 16)),
}
