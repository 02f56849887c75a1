"""Lazy Tensor Core against eager: values, what is refused, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F  # noqa: N812 - its usual name
from torch import nn

from dynamo_ext.backends import lazy as module
from dynamo_ext.backends import lazy_session, registry, torch_private, trial
from dynamo_ext.backends.base import Support
from tests.backends.engine_zoo import ZOO as COMMON
from tests.backends.engine_zoo import gives_what_eager_gives, node_of, same
from tests.backends.own_process import silent

Harness = Any

pytestmark = pytest.mark.skipif(not torch_private.has_lazy(), reason="This torch has no LTC.")


def lazy(**options: Any) -> Any:
    return registry.compiler("lazy", options)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(16, 16) for _ in range(3))
        self.norm, self.up, self.down = nn.LayerNorm(16), nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        heads = (part(x).unflatten(-1, (2, 8)).transpose(1, 2) for part in (self.q, self.k, self.v))
        y = F.scaled_dot_product_attention(*heads).transpose(1, 2).flatten(2)
        return x + self.down(F.gelu(self.up(self.norm(x + y))))


def mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))


def cnn() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2),
        nn.Flatten(), nn.Linear(128, 5),
    )  # fmt: skip


MODELS: dict[str, tuple[Any, tuple[int, ...]]] = {
    "mlp": (mlp, (3, 8)),
    "cnn": (cnn, (2, 3, 8, 8)),
    "attention": (Attention, (2, 5, 16)),
}


def inplace(x: torch.Tensor) -> torch.Tensor:
    y = x.clone()
    y[0] = 5
    y.mul_(2).add_(x)
    x.add_(1)
    return y


ZOO: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "alpha": (lambda x: torch.add(x, x.exp(), alpha=2), (torch.randn(4),)),
    "twice": (lambda x: (y := x.exp() + 1, y, y.clone(), y.view(-1)), (torch.randn(3),)),
    "returned": (lambda x: (x, x + 1, x.clone()), (torch.randn(3),)),
    "constants": (lambda x: (torch.full((2, 2), 3.0), x.new_ones(3), x + 1), (torch.randn(3),)),
    "shuffle": (lambda x: F.pixel_shuffle(x, 2) + 1, (torch.randn(1, 8, 3, 3),)),
    "embedding": (lambda x, i: F.embedding(i, x) + 1, (torch.randn(5, 3), torch.tensor([4, 0]))),
    "nan": (lambda x: torch.relu(x) + x.clamp(-1, 1), (torch.tensor([torch.nan, -1.0, 1.0]),)),
}


@pytest.mark.parametrize("name", ZOO)
def test_the_zoo_gives_what_eager_gives(harness: Harness, name: str) -> None:
    with torch.no_grad():
        gives_what_eager_gives(harness, lazy(verify=False, min_partition=1), ZOO[name])


@pytest.mark.parametrize("name", ["float32", "bfloat16", "overflow", "alpha", "embedding"])
def test_what_it_should_take_it_takes_whole(harness: Harness, name: str) -> None:
    fn, args = {**COMMON, **ZOO}[name]
    with torch.no_grad():
        harness.compile(fn, lazy())(*args)
    assert set(harness.engines) == {"lazy"}


def test_a_changed_input_is_changed_as_in_eager(harness: Harness) -> None:
    mine, theirs = torch.ones(3, 3), torch.ones(3, 3)
    compiled = harness.compile(inplace, lazy(min_partition=1))
    with torch.no_grad():
        for _ in range(2):
            same(compiled(mine), inplace(theirs))
            same(mine, theirs)
    assert "lazy" in harness.engines


@pytest.mark.parametrize("name", MODELS)
def test_models_follow_their_weights(harness: Harness, name: str) -> None:
    make, shape = MODELS[name]
    model, other = make().eval(), make().eval()
    compiled, second = harness.compile(model, lazy()), harness.compile(other, lazy())
    with torch.no_grad():
        for _ in range(2):
            x = torch.randn(shape)
            same(compiled(x), model(x))
            same(second(x), other(x))
        for parameter in model.parameters():
            parameter.mul_(1.5)
        for _ in range(2):
            x = torch.randn(shape)
            same(compiled(x), model(x))
    # The softmax of attention looks for rows masked throughout, by what has no lazy kernel.
    engines = {"lazy", "eager"} if name == "attention" else {"lazy"}
    assert set(harness.engines) == engines
    assert set(harness.stages) == ({"unsupported"} if name == "attention" else set())


@pytest.mark.parametrize("name", MODELS)
def test_gradients(harness: Harness, name: str) -> None:
    make, shape = MODELS[name]
    model, twin = make().train(), make().train()
    twin.load_state_dict(model.state_dict())
    compiled = harness.compile(model, lazy())
    for _ in range(2):
        x = torch.randn(shape)
        for each in (compiled, twin):
            each(x).square().mean().backward()
        for mine, theirs in zip(model.parameters(), twin.parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-5)
    for mine, theirs in zip(model.buffers(), twin.buffers(), strict=True):
        torch.testing.assert_close(mine, theirs)
    assert set(harness.stages) <= {"unsupported"}


def test_graphs_that_differ_only_in_which_input_goes_where() -> None:
    """Lazy Tensor Core's own cache takes them for the same."""
    aten = torch.ops.aten

    def apart(order: tuple[int, int], last: int) -> torch.fx.GraphModule:
        graph = torch.fx.Graph()
        inputs = [graph.placeholder(name) for name in "xy"]
        difference = graph.call_function(aten.sub.Tensor, tuple(inputs[i] for i in order))
        graph.output([graph.call_function(aten.div.Tensor, (difference, inputs[last]))])
        return torch.fx.GraphModule({}, graph)

    x, y = torch.rand(5, 5) + 0.5, torch.rand(5, 5) + 0.5
    made = [apart(order, last) for order in ((0, 1), (1, 0)) for last in (0, 1)]
    sessions = [lazy_session.Session(graph) for graph in made]
    for _ in range(2):
        for graph, session in zip(made, sessions, strict=True):
            torch.testing.assert_close(session.run(x, y), graph(x, y))


def test_one_engine_serves_every_batch(harness: Harness) -> None:
    model = mlp()
    compiled = harness.compile(model, lazy(), dynamic=True)
    with torch.no_grad():
        for batch in (3, 5, 64, 3):
            x = torch.randn(batch, 8)
            same(compiled(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert (partition.engine, partition.engines_built) == ("lazy", 1)


def test_an_index_beyond_the_end_raises_and_nothing_stays_behind(harness: Harness) -> None:
    weight = torch.randn(5, 3)

    def fn(i: torch.Tensor) -> torch.Tensor:
        return F.embedding(i, weight) * 2 + 1

    compiled = harness.compile(fn, lazy())
    good, bad = torch.tensor([0, 4]), torch.tensor([0, 5])
    with torch.no_grad():
        same(compiled(good), fn(good))
        with pytest.raises(IndexError):
            compiled(bad)
        same(compiled(good), fn(good))
    assert harness.engines == {"lazy": 3}


def test_torch_keeps_its_state_and_the_user_an_empty_screen() -> None:
    silent("""
import os, torch, torch._dynamo
from torch import nn
def state():
    return (torch.get_num_threads(), torch.get_num_interop_threads(), dict(os.environ),
            torch._dynamo.config.save_config(), torch.get_rng_state().sum().item(),
            torch.get_default_device(), torch.get_default_dtype(), torch.is_grad_enabled(),
            torch._C._get_graph_executor_optimize())
model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16)).eval()
x = torch.randn(2, 8)
before = state()
from dynamo_ext.backends import registry
with torch.no_grad():
    torch.compile(model, backend=registry.compiler("lazy"))(x)
assert state() == before
""")


REFUSED: dict[str, tuple[Any, torch.Tensor, tuple[Any, ...], str]] = {
    "kthvalue": (torch.ops.aten.kthvalue.default, torch.randn(3, 7), (2,), "runs it eagerly"),
    "strides": (torch.ops.aten.as_strided.default, torch.randn(4), ((2,), (2,)), "memory"),
    "pixel_shuffle": (torch.ops.aten.pixel_shuffle.default, torch.randn(1, 8, 3, 3), (2,), "else"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_it_refuses_and_why(name: str) -> None:
    op, value, rest, reason = REFUSED[name]
    answer = registry.get("lazy").supports(node_of(op, value, *rest))
    assert not answer
    assert reason in answer.reason


def test_random_operators_never_get_there(harness: Harness) -> None:
    def fn(x: torch.Tensor) -> torch.Tensor:
        return torch.normal(x, 1.0) + F.dropout(x, 0.5) + x.sin().cos().exp()

    x = torch.randn(4, 4)
    compiled = harness.compile(fn, lazy())
    with torch.no_grad():
        for seed in range(2):
            torch.manual_seed(seed)
            expected = fn(x)
            torch.manual_seed(seed)
            same(compiled(x), expected)


def test_a_trial_is_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    backend = module.LazyBackend()
    node = node_of(torch.ops.aten.exp.default, torch.randn(3))
    state = torch.get_rng_state()
    assert backend.supports(node) == Support(supported=True)
    assert torch.equal(torch.get_rng_state(), state)
    monkeypatch.setattr(trial, "disagreement", lambda *_: pytest.fail("asked twice"))
    assert backend.supports(node).supported


def test_probe_says_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    found = registry.get("lazy").probe()
    assert (found.available, found.device) == (True, "cpu")
    monkeypatch.setattr(torch_private, "has_lazy", lambda: False)
    answer = registry.get("lazy").probe()
    assert not answer.available
    assert "without Lazy Tensor Core" in answer.reason
    assert answer.remedy


def test_freeze_reaches_the_engine(harness: Harness) -> None:
    model, x = mlp(), torch.randn(2, 8)
    with torch.no_grad():
        same(harness.compile(model, lazy(freeze="false"))(x), model(x))
    (partition,) = harness.journal.partitions.values()
    assert partition.frozen == 0
