"""A batch size that changes: two compiles where the engine takes symbolic shapes, else a bound."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import nn

import dynamo_ext
from benchmarks.backends import ENGINES
from dynamo_ext.backends import registry
from dynamo_ext.backends.pipeline.calls import shape_limit
from dynamo_ext.numerics import verdict
from tests.backends.engine_zoo import MODELS
from tests.needs import needs_backend

Harness = Any
SIZES = range(2, 22)


@pytest.fixture(autouse=True)
def _counted_afresh() -> None:
    torch._dynamo.utils.counters.clear()


@pytest.fixture(params=ENGINES)
def backend(request: pytest.FixtureRequest) -> Any:
    needs_backend(request.param)
    return registry.compiler(request.param)


@pytest.fixture
def symbolic(backend: Any) -> Any:
    if not getattr(backend.backend, "dynamic_shapes", False):
        pytest.skip("it has an engine for each shape")
    return backend


@pytest.fixture
def fixed(backend: Any) -> Any:
    if getattr(backend.backend, "dynamic_shapes", False):
        pytest.skip("one engine serves every size")
    return backend


def model(name: str) -> tuple[nn.Module, list[int]]:
    make, (_, *shape) = MODELS[name]
    return make(), shape


def graphs() -> int:
    return int(torch._dynamo.utils.counters["stats"]["unique_graphs"])


def ran_in_engine(harness: Harness) -> bool:
    return any(p.engine != "eager" for p in harness.journal.partitions.values())


def agree(compiled: Any, module: Any, shape: list[int], size: int) -> None:
    x = torch.randn(size, *shape)
    assert verdict.disagreement([compiled(x)], [module(x)]) == "", size


# torch's own convolution tells batches under 16 from the rest, whatever the backend.
@pytest.mark.parametrize(("name", "most"), [("mlp", 2), ("cnn", 3)])
@torch.no_grad()
def test_twenty_batch_sizes_compile_twice(
    harness: Harness, symbolic: Any, name: str, most: int
) -> None:
    module, shape = model(name)
    compiled = harness.compile(module, symbolic)
    for size in (*SIZES, *reversed(SIZES)):
        agree(compiled, module, shape, size)
    assert graphs() <= most
    assert harness.stages == []
    # The journal keeps the partition of the last graph under the name of the others'.
    assert [p.engines_built for p in harness.journal.partitions.values()] == [1]


def check_bound(harness: Harness, backend: Any, most: int) -> None:
    module, shape = model("mlp")
    compiled = harness.compile(module, backend)
    for size in SIZES:
        agree(compiled, module, shape, size)
    assert graphs() <= 2
    (part,) = [p for p in harness.journal.partitions.values() if p.engine != "eager"]
    assert part.engines_built == most
    (beyond,) = harness.journal.fallbacks.values()
    # The first size has the first graph; the rest share the second one's engines.
    assert (beyond.stage, beyond.count) == ("run", len(SIZES) - 1 - most)
    assert f"{most} input shapes have been compiled" in beyond.message
    for size in reversed(SIZES):
        agree(compiled, module, shape, size)
    (part,) = [p for p in harness.journal.partitions.values() if p.engine != "eager"]
    assert part.engines_built == most


@torch.no_grad()
def test_the_bound_is_as_stated(
    harness: Harness, scripted: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_limit, "AT_ONCE", shape_limit.MOST_SHAPES)
    check_bound(harness, scripted, 16)


@torch.no_grad()
def test_twenty_batch_sizes_have_a_bound(
    harness: Harness, fixed: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shape_limit, "MOST_SHAPES", 4)
    monkeypatch.setattr(shape_limit, "AT_ONCE", 4)
    check_bound(harness, fixed, 4)


@torch.no_grad()
@pytest.mark.filterwarnings("ignore:var")  # of a norm in parts, of no rows
def test_one_and_none_are_right_after_many(harness: Harness, backend: Any) -> None:
    module, shape = model("mlp")
    compiled = harness.compile(module, backend)
    for size in (3, 5, 1, 0, 7):
        agree(compiled, module, shape, size)
    assert ran_in_engine(harness)


@pytest.mark.sweep
@torch.no_grad()
def test_two_sizes_change_at_once(harness: Harness, backend: Any) -> None:
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    module = nn.Sequential(layer, nn.Linear(8, 3)).train()
    compiled = harness.compile(module, backend)
    for batch, time in ((2, 3), (4, 5), (3, 7), (2, 3)):
        x = torch.randn(batch, time, 8)
        assert verdict.disagreement([compiled(x)], [module(x)]) == ""
    assert ran_in_engine(harness)
    assert graphs() <= 3


def test_sizes_change_in_training(harness: Harness, backend: Any) -> None:
    module, shape = model("mlp")
    twin = copy.deepcopy(module)
    compiled = harness.compile(module, backend)
    for size in (2, 4, 3):
        x = torch.randn(size, *shape)
        for each, call in ((module, compiled), (twin, twin)):
            each.zero_grad()
            call(x).square().mean().backward()
        pairs = zip(module.parameters(), twin.parameters(), strict=True)
        for mine, theirs in pairs:
            assert verdict.disagreement([mine.grad], [theirs.grad]) == ""
    assert graphs() <= 2


def _truth(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    large = torch.full((len(x),), len(x) >= 25, dtype=torch.bool)
    return large, x * (len(x) > 25) + 1, (large | (x.sum(-1) > 0)).float()


def _number(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    share = len(x) / 3
    return x * share + 1 - x, torch.full_like(x, share) + x * 2, (x > share).float() * x


def _scalars(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    size = len(x)
    near = torch.where(x > 0, x, size).clamp(-size / 100, size).masked_fill(x > 1, size)
    return near.abs().pow(size / 20), torch.addcmul(x, x, x, value=size), torch.arange(size) * 2.0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("function", [_truth, _number, _scalars], ids=lambda f: f.__name__)
def test_scalars_that_sizes_decide(symbolic: Any, function: Any, dtype: torch.dtype) -> None:
    fast = dynamo_ext.optimize(symbolic.name)(function)
    for size in (20, 23, 24, 31):
        x = torch.randn(size, 4, dtype=dtype)
        if size > 20 or dtype == torch.float32:
            exact = {"rtol": 1e-13, "atol": 1e-13} if dtype == torch.float64 else {}
            torch.testing.assert_close(fast(x), function(x), **exact)
        else:
            fast(x)
    assert "run" not in {fallback.stage for fallback in fast.report().fallbacks}
