"""The largest and the smallest elements and their places, in engines that pass over NaN."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynamo_ext.backends import registry

Harness = Any

NAN, INF, MOST = math.nan, math.inf, torch.finfo(torch.float32).max
ROWS = torch.tensor([
    [1.0, 3.0, -2.0, 3.0],
    [NAN, INF, 1.0, NAN],
    [INF, NAN, 0.0, -INF],
    [INF, INF, INF, INF],
    [-INF, -INF, -INF, -INF],
    [INF, -INF, 0.5, 2.0],
    [MOST, MOST, MOST, MOST],
    [-MOST, -MOST, -INF, -MOST],
    [MOST, INF, MOST, MOST],
    [0.0, -0.0, 0.0, -0.0],
    [NAN, NAN, NAN, NAN],
    [-1.0, -1.0, -1.0, NAN],
])  # fmt: skip

REDUCTIONS: dict[str, Callable[[torch.Tensor], Any]] = {
    "amax": lambda x: x.amax(1),
    "amin": lambda x: x.amin(1, keepdim=True),
    "argmax": lambda x: x.argmax(1),
    "argmin": lambda x: x.argmin(-1, keepdim=True),
    "max": lambda x: tuple(x.max(1)),
    "min": lambda x: tuple(x.min(1, keepdim=True)),
    "the first dimension": lambda x: (*x.max(0), *x.min(0)),
    "two dimensions": lambda x: x[None].amax((0, 2)),
    "all": lambda x: (x.max(), x.min(), x.argmax(), x.argmin()),
    "the dimensions of all kept": lambda x: (x.argmax(keepdim=True), x.amin((), keepdim=True)),
    "one row each": lambda x: tuple(
        each for row in x.unbind() for each in (row.amax(), row.argmax(), row.argmin())
    ),
    "no dimension": lambda x: (x[0, 0].amax(), x[0, 0].argmax(), x[1, 0].amin()),
    "two tensors": lambda x: (torch.maximum(x, x.flip(0)), torch.minimum(x.flip(1), x)),
    "a row beside all": lambda x: (torch.maximum(x[2], x), torch.minimum(x, x[2])),
    "clamp": lambda x: (x.clamp(-1, 1), x.clamp(min=0.5), x.clamp(max=0.5)),
    "compared": lambda x: (x > 0, x >= 3, x.flip(0) > x, x >= x.flip(1), x < 0, x <= x.flip(0)),
    "log_softmax": lambda x: (x.log_softmax(1), x.softmax(0)),
}


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("engine", ["onnxrt", "openvino"])
def test_they_are_in_the_engine_and_keep_what_is_no_number(
    harness: Harness, engine: str, name: str
) -> None:
    fn = REDUCTIONS[name]
    compiler = registry.compiler(engine, {"verify": False, "min_partition": 1})
    with torch.no_grad():
        compiled = harness.compile(lambda x: fn(x * 1), compiler)
        for x in (ROWS, ROWS.flip(0), torch.randn(ROWS.shape), ROWS.nan_to_num(NAN, 5.0, -5.0)):
            torch.testing.assert_close(compiled(x), fn(x), equal_nan=True)
    assert set(harness.engines) == {engine}


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("mode", ["amax", "amin"])
def test_scattering_keeps_them_in_onnxrt(harness: Harness, mode: str, include_self: Any) -> None:
    index = torch.tensor([[0, 1, 1, 1], [0, 0, 3, 3]]).repeat(6, 1)

    def fn(x: torch.Tensor, into: torch.Tensor) -> torch.Tensor:
        return (into * 1).scatter_reduce(0, index, x, mode, include_self=include_self)

    compiled = harness.compile(fn, registry.compiler("onnxrt", {"verify": False}))
    into = torch.tensor([[1.0, NAN, 3.0, -INF], [NAN, 2.0, 0.0, 1.0], [NAN, INF, -INF, 1.0]])
    into = torch.cat([into, into])
    with torch.no_grad():
        for x in (ROWS, ROWS.flip(1), -ROWS, torch.full(ROWS.shape, -INF), torch.randn(12, 4)):
            torch.testing.assert_close(compiled(x, into), fn(x, into), equal_nan=True)
    assert set(harness.engines) == {"onnxrt"}


@pytest.mark.parametrize("engine", ["onnxrt", "openvino"])
def test_of_many_elements_eager_is_faster(harness: Harness, engine: str) -> None:
    compiler = registry.compiler(engine, {"min_partition": 1})
    with torch.no_grad():
        compiled = harness.compile(lambda x: x.amax(1), compiler)
        x = torch.randn(2, 2**16)
        torch.testing.assert_close(compiled(x), x.amax(1))
        whole = harness.compile(lambda x: x.amax(1) + 1, registry.compiler("onnxrt"))
        torch.testing.assert_close(whole(x.long()), x.long().amax(1) + 1)
    assert any("takes long to look" in each.message for each in harness.journal.fallbacks.values())
