"""Values of which torch's own samples have too few, one small function each.

NaN, infinities, signed zeros, integer overflow, negative indices, empty tensors, odd strides,
inputs changed in place.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F  # noqa: N812 - as all of torch's users write it

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "edge: "
"""Starts the names of these cases, which are no operators."""


@dataclass(frozen=True)
class Edge:
    """A function and what makes its inputs; ``dtype`` is that of the values it is about."""

    name: str
    dtype: str
    function: Callable[..., Any]
    inputs: Callable[[], tuple[torch.Tensor, ...]]


def _odd() -> torch.Tensor:
    inf, nan = float("inf"), float("nan")
    return torch.tensor([[nan, 1.0, -0.0, 0.0], [inf, -inf, -2.5, 1e-40], [-1.0, nan, 0.5, 3e38]])


def _halves() -> torch.Tensor:
    return torch.tensor([-2.5, -1.5, -0.5, -0.0, 0.0, 0.5, 1.5, 2.5, 3.5, 1e10])


def _large() -> torch.Tensor:
    edge = torch.iinfo(torch.int64)
    return torch.tensor([[edge.max, edge.min, 2**31, -(2**31)], [2**53 + 1, -7, 7, 3037000500]])


def _plain() -> torch.Tensor:
    return torch.arange(24, dtype=torch.float32).reshape(4, 6).sin()


def _truth() -> torch.Tensor:
    return torch.tensor([[True, False, True], [False, False, True]])


def _index(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def _signs(x: torch.Tensor) -> torch.Tensor:
    return torch.copysign(torch.ones_like(x), x)


def _increment(x: torch.Tensor) -> torch.Tensor:
    x.add_(1)
    return x * 2


def _row_set(x: torch.Tensor) -> torch.Tensor:
    x[1] = 5.0
    return x.sum(0)


def _accumulated(x: torch.Tensor, at: torch.Tensor, by: torch.Tensor) -> torch.Tensor:
    return x.index_put((at,), by, accumulate=True)


def _edge(
    name: str, dtype: str, function: Callable[..., Any], *inputs: Callable[[], torch.Tensor]
) -> Edge:
    return Edge(name, dtype, function, lambda: tuple(made() for made in inputs))


EDGES = (
    _edge("relu of NaN", "float32", torch.relu, _odd),
    _edge("relu6 of NaN", "float32", F.relu6, _odd),
    _edge("leaky_relu of NaN and infinities", "float32", F.leaky_relu, _odd),
    _edge("hardtanh of NaN", "float32", F.hardtanh, _odd),
    _edge("gelu of NaN and huge values", "float32", lambda x: F.gelu(x.clamp(-1e30, 1e30)), _odd),
    _edge("silu of infinities", "float32", F.silu, _odd),
    _edge("clamp of NaN", "float32", lambda x: x.clamp(-1, 1), _odd),
    _edge("clamp, bounds crossed", "float32", lambda x: x.clamp(1, -1), _odd),
    _edge("maximum with NaN", "float32", lambda x: torch.maximum(x, x.flip(1)), _odd),
    _edge("fmin with NaN", "float32", lambda x: torch.fmin(x, x.flip(1)), _odd),
    _edge("amax of NaN", "float32", lambda x: x.amax(1), _odd),
    _edge("argmax of NaN", "float32", lambda x: x.argmax(1), _odd),
    _edge("argmin of equal values", "float32", lambda x: (x * 0).argmin(1), _plain),
    _edge("max with indices of NaN", "float32", lambda x: torch.max(x, 1), _odd),
    _edge("sort of NaN and signed zeros", "float32", lambda x: x.sort(1, stable=True)[0], _odd),
    _edge("topk of equal values", "float32", lambda x: x.round().topk(3)[0], _plain),
    _edge("sign of NaN and zeros", "float32", torch.sign, _odd),
    _edge("sign bit of zeros", "float32", lambda x: _signs(-x), _halves),
    _edge("negative zero kept", "float32", lambda x: 1 / (x * 1.0), _odd),
    _edge(
        "isnan, isinf, isfinite", "float32", lambda x: (x.isnan(), x.isinf(), x.isfinite()), _odd
    ),
    _edge("nan_to_num", "float32", lambda x: x.nan_to_num(0.5, 9.0, -9.0), _odd),
    _edge("comparisons with NaN", "float32", lambda x: (x == x.clone(), x < 1, x >= 0), _odd),
    _edge("where with NaN not taken", "float32", lambda x: torch.where(x > 0, x, 0.0), _odd),
    _edge(
        "masked_fill with -inf, softmax",
        "float32",
        lambda x: x.masked_fill(x > -9, float("-inf")).softmax(1),
        _plain,
    ),
    _edge("log_softmax of huge values", "float32", lambda x: (x * 1e30).log_softmax(1), _plain),
    _edge("logsumexp of -inf", "float32", lambda x: torch.logsumexp(x - float("inf"), 1), _plain),
    _edge("round to even", "float32", torch.round, _halves),
    _edge("floor, ceil, trunc", "float32", lambda x: (x.floor(), x.ceil(), x.trunc()), _halves),
    _edge("remainder of negatives", "float32", lambda x: torch.remainder(x, -1.5), _halves),
    _edge("fmod of negatives", "float32", lambda x: torch.fmod(x, 1.5), _halves),
    _edge("atan2 of signed zeros", "float32", lambda x: torch.atan2(x * 0, x), _halves),
    _edge("floor division of floats", "float32", lambda x: x // -0.7, _halves),
    _edge("division by zero", "float32", lambda x: x / (x * 0), _halves),
    _edge("pow of negatives and zero", "float32", lambda x: (x**0, x**-1, x**0.5, x**3), _odd),
    _edge("sqrt, log of negatives", "float32", lambda x: (x.sqrt(), x.log(), x.rsqrt()), _odd),
    _edge("float to int", "float32", lambda x: x.clamp(-9, 9).to(torch.int64), _halves),
    _edge("float to uint8", "float32", lambda x: x.clamp(0, 9).to(torch.uint8), _halves),
    _edge("float to bool", "float32", lambda x: x.to(torch.bool), _odd),
    _edge("cumsum past NaN", "float32", lambda x: x.cumsum(1), _odd),
    _edge("mean of nothing", "float32", lambda x: x[:0].mean(), _plain),
    _edge("sum and prod of nothing", "float32", lambda x: (x[:0].sum(0), x[:0].prod(0)), _plain),
    _edge("matmul over no elements", "float32", lambda x: x[:, :0] @ x[:0], _plain),
    _edge("cat with nothing", "float32", lambda x: torch.cat([x, x[:0], x]), _plain),
    _edge("max pooling of NaN", "float32", lambda x: F.max_pool2d(x[None, None], 2), _odd),
    _edge(
        "max pooling of -inf, padded",
        "float32",
        lambda x: F.max_pool2d(x[None, None] - float("inf"), 3, 1, 1),
        _plain,
    ),
    _edge("last column", "float32", lambda x: x[:, -1], _plain),
    _edge("negative slices", "float32", lambda x: x[-3:-1, 1:-1:2], _plain),
    _edge("slice past the end", "float32", lambda x: x[2:99, -99:2], _plain),
    _edge("add with alpha", "float32", lambda x: torch.add(x, x.flip(0), alpha=-2.5), _plain),
    _edge("sub with alpha", "float32", lambda x: torch.sub(1.0 + x, x, alpha=2), _plain),
    _edge(
        "addmm with beta 0 on NaN",
        "float32",
        lambda x: torch.addmm(x[:, :4] * float("nan"), x, x.t(), beta=0, alpha=2),
        _plain,
    ),
    _edge("negative indices", "float32", lambda x, i: x[i], _plain, lambda: _index(-1, 0, -4)),
    _edge("two negative indices", "float32", lambda x, i: x[i, i], _plain, lambda: _index(-1, 2)),
    _edge(
        "index_put accumulating",
        "float32",
        _accumulated,
        _plain,
        lambda: _index(-1, 0, -1),
        lambda: torch.ones(3, 6),
    ),
    _edge(
        "gather, index_select",
        "float32",
        lambda x, i: (x.gather(1, i.expand(4, 3)), x.index_select(0, i)),
        _plain,
        lambda: _index(2, 0, 2),
    ),
    _edge(
        "scatter_add on equal places",
        "float32",
        lambda x, i: torch.zeros(3).scatter_add(0, i, x[0]),
        _plain,
        lambda: _index(2, 0, 2, 1, 1, 2),
    ),
    _edge(
        "embedding with padding_idx",
        "float32",
        lambda x, i: F.embedding(i, x, padding_idx=1),
        _plain,
        lambda: _index(1, 3, 1),
    ),
    _edge("transposed input", "float32", lambda x: x * 2 + 1, lambda: _plain().t()),
    _edge("every other element", "float32", lambda x: x * 2 + 1, lambda: _plain()[::2, 1::2]),
    _edge("expanded input", "float32", lambda x: x + 1, lambda: _plain()[:1].expand(4, 6)),
    _edge("input added to in place", "float32", _increment, _plain),
    _edge("row of the input set", "float32", _row_set, _plain),
    _edge("the same result twice, and the input", "float32", lambda x: (x + 1, x, x[0]), _plain),
    _edge("scalar tensors", "float32", lambda x: x * 2 - x.abs(), lambda: torch.tensor(-1.5)),
    _edge("a tensor and a float64 number", "float32", lambda x: x * 0.1 + 1e-9, _plain),
    _edge("sum that overflows", "int64", lambda x: x.sum(1), _large),
    _edge("product that overflows", "int64", lambda x: (x * x, x * 3, x.prod(1)), _large),
    _edge("addition that overflows", "int64", lambda x: (x + x, x - 1, x + 1), _large),
    _edge("abs and neg of the least", "int64", lambda x: (x.abs(), -x), _large),
    _edge("beyond float's integers", "int64", lambda x: (x == x - 1, x > x - 1, x.amax(1)), _large),
    _edge(
        "division of negatives",
        "int64",
        lambda x: (
            torch.div(x, 3, rounding_mode="floor"),
            torch.div(x, 3, rounding_mode="trunc"),
            x % 3,
            torch.fmod(x, 3),
        ),
        _large,
    ),
    _edge("division by a negative", "int64", lambda x: (x // -3, x % -3), _large),
    _edge("true division", "int64", lambda x: x / 7, _large),
    _edge("to int32 and back", "int64", lambda x: x.to(torch.int32).to(torch.int64) + 1, _large),
    _edge(
        "shifts and masks", "int64", lambda x: (x << 3, x >> 2, x & 255, x | 1, ~x, x ^ 5), _large
    ),
    _edge("clamp at wide bounds", "int64", lambda x: x.clamp(-(2**60), 2**60), _large),
    _edge("cumsum that overflows", "int64", lambda x: x.cumsum(1), _large),
    _edge("sort and argmax of large", "int64", lambda x: (x.sort(1)[0], x.argmax(1)), _large),
    _edge("pow that overflows", "int64", lambda x: (x**3, x**0), _large),
    _edge("mean of ints as float", "int64", lambda x: x.float().mean(1), _large),
    _edge("arange over the end", "int64", lambda x: x + torch.arange(-2, 2), _large),
    _edge("sum of truths", "bool", lambda x: (x.sum(), x.sum(1), x.cumsum(1)), _truth),
    _edge("truths times truths", "bool", lambda x: (x * x, x + x, x & ~x, x ^ x), _truth),
    _edge("truths as numbers", "bool", lambda x: (x + 1, x * 2.5, x.float() - 1), _truth),
    _edge("any and all of nothing", "bool", lambda x: (x[:0].any(), x[:0].all(), x.any(1)), _truth),
    _edge("argmax of truths", "bool", lambda x: (x.int().argmax(1), x.amax(1)), _truth),
    _edge("masked values", "bool", lambda x: torch.where(x, 1.5, -2), _truth),
)
