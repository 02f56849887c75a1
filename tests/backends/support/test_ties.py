"""Equal elements where torch leaves their order open: engines, and the check of them."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from benchmarks.backends import without
from dynamo_ext.backends import registry
from dynamo_ext.backends.support import ties
from tests.backends.engines.test_engines import compiler

Harness = Any
# More than 16 in a row: fewer are sorted stably by torch's own kernels, whatever was asked.
KEYS = {
    "int64": torch.randint(0, 4, (3, 40)),
    "int32": torch.randint(0, 4, (40, 3)).int().t(),
    "float32": torch.randint(0, 4, (3, 40)).float(),
    "bool": torch.randint(0, 2, (3, 40)).bool(),
}


def order(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    return *torch.sort(x), *torch.sort(x, 0, descending=True), torch.argsort(x), torch.msort(x)


def stable_order(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
    first, second = torch.sort(x, stable=True), torch.sort(x, stable=True, dim=0, descending=True)
    return *first, *second, first[1], torch.sort(x, dim=0, stable=True)[0]


def grouped(x: torch.Tensor, values: torch.Tensor) -> torch.Tensor:
    """Values in the order of their keys, as a mixture of experts has them: ties show in it."""
    return values.gather(1, torch.sort(x).indices) * torch.arange(40.0).sin()


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("engine", ["onnxrt", "xla"])
def test_sorting_is_stable_and_stays_in_the_engine(
    harness: Harness, engine: str, name: str
) -> None:
    keys, values = KEYS[name], torch.randn(3, 40)
    made = compiler(engine, min_partition=1)
    with torch.no_grad():
        found = harness.compile(order, made)(keys)
        assert all(map(torch.equal, found, stable_order(keys)))
        right = values.gather(1, torch.sort(keys, stable=True).indices)
        followed = harness.compile(grouped, made)(keys, values)
        torch.testing.assert_close(followed, right * torch.arange(40.0).sin())
    assert list(harness.engines) == [engine]
    assert not harness.stages


@pytest.mark.parametrize("engine", without("ts", "ofi"))
def test_indices_lead_to_what_is_sorted(harness: Harness, engine: str) -> None:
    """Whatever the engine takes of it, and whatever stays with torch."""
    made = compiler(engine, min_partition=1)
    functions = (
        torch.sort,
        lambda x: torch.topk(x, 5),
        lambda x: torch.topk(x, 5, largest=False),
        lambda x: torch.topk(x, 5, sorted=False),
        lambda x: torch.kthvalue(x, 7, keepdim=True),
        lambda x: torch.max(x, 1, keepdim=True),
    )
    with torch.no_grad():
        for fn in functions:
            for name in ("int64", "float32"):
                keys = KEYS[name]
                values, indices = harness.compile(fn, made)(keys)
                assert torch.equal(values.sort().values, fn(keys)[0].sort().values)
                assert torch.equal(keys.gather(1, indices), values)
                assert all(len(set(row)) == len(row) for row in indices.tolist())


@pytest.mark.parametrize("k", [1, 3, 40])
@pytest.mark.parametrize("name", ["int64", "float32"])
@pytest.mark.parametrize("engine", ["onnxrt", "xla"])
def test_a_few_of_equal_elements_do_not_cost_the_part(
    harness: Harness, engine: str, name: str, k: int
) -> None:
    def routed(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        values, indices = torch.topk(x, k)
        return values * 2, indices, y.gather(1, indices) + 1

    keys, y = KEYS[name], torch.randn(3, 40)
    with torch.no_grad():
        found = harness.compile(routed, compiler(engine))(keys, y)
    values, indices = (part[:, :k] for part in torch.sort(keys, stable=True, descending=True))
    torch.testing.assert_close(found, (values * 2, indices, y.gather(1, indices) + 1))
    assert list(harness.engines) == [engine]


def test_other_elements_than_equal_ones_are_still_wrong() -> None:
    def first_two(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        chosen = torch.ops.aten.topk.default(x, 2)
        return chosen[0], chosen[1]

    graph = torch.fx.symbolic_trace(first_two)
    x = torch.tensor([[1.0, 3.0, 3.0, 3.0, 2.0]])
    expected = list(graph(x))
    assert not ties.disagreement(graph, [x], [torch.tensor([[3.0, 3.0]]), expected[1]], expected)
    for indices, right in (([[1, 2]], True), ([[1, 4]], False), ([[0, 1]], False)):
        found = [x.gather(1, torch.tensor(indices)), torch.tensor(indices)]
        assert (not ties.disagreement(graph, [x], found, expected)) is right


EDGES = torch.tensor(
    [
        [1.0, torch.nan, torch.inf, -torch.inf, 3.4e38, 0.0, -0.0, torch.nan, torch.inf, 2.0],
        [torch.nan, 5.0, 4.0, torch.nan, 3.0, 2.0, 1.0, torch.nan, -1.0, -2.0],
    ]
)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.float16, torch.bfloat16])
@pytest.mark.parametrize("engine", ["onnxrt", "xla"])
def test_not_a_number_is_above_infinity(
    harness: Harness, engine: str, dtype: torch.dtype, descending: Any
) -> None:
    """As data that come after the first call, which alone is checked."""

    def fn(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return *torch.sort(x, descending=descending), *torch.topk(x, 4, largest=descending)

    x = EDGES.to(dtype)
    values, indices = torch.sort(x, stable=True, descending=descending)
    with torch.no_grad():
        compiled = harness.compile(fn, registry.compiler(engine, {"min_partition": 1}))
        compiled(torch.randn(2, 10).to(dtype))
        found = compiled(x)
    assert torch.equal(found[1], indices)
    torch.testing.assert_close(found[0], values, equal_nan=True)
    torch.testing.assert_close(found[2], values[:, :4], equal_nan=True)
    torch.testing.assert_close(x.gather(1, found[3]), found[2], equal_nan=True)
