"""Values of which torch's own samples have too few, one small function each.

NaN, infinities, signed zeros, integer overflow, negative indices, empty tensors, odd strides,
inputs changed in place.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.nn import functional as F  # noqa: N812 - as all of torch's users write it

if TYPE_CHECKING:
    from collections.abc import Callable

PREFIX = "edge: "
"""Starts the names of these cases, which are no operators."""


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


EDGES: dict[str, dict[str, tuple[Callable[..., Any], ...]]] = {
    "float32": {
        "relu of NaN": (torch.relu, _odd),
        "relu6 of NaN": (F.relu6, _odd),
        "leaky_relu of NaN and infinities": (F.leaky_relu, _odd),
        "hardtanh of NaN": (F.hardtanh, _odd),
        "gelu of NaN and huge values": (lambda x: F.gelu(x.clamp(-1e30, 1e30)), _odd),
        "silu of infinities": (F.silu, _odd),
        "clamp of NaN": (lambda x: x.clamp(-1, 1), _odd),
        "clamp, bounds crossed": (lambda x: x.clamp(1, -1), _odd),
        "maximum with NaN": (lambda x: torch.maximum(x, x.flip(1)), _odd),
        "fmin with NaN": (lambda x: torch.fmin(x, x.flip(1)), _odd),
        "amax of NaN": (lambda x: x.amax(1), _odd),
        "argmax of NaN": (lambda x: x.argmax(1), _odd),
        "argmin of equal values": (lambda x: (x * 0).argmin(1), _plain),
        "max with indices of NaN": (lambda x: torch.max(x, 1), _odd),
        "sort of NaN and signed zeros": (lambda x: x.sort(1, stable=True)[0], _odd),
        "topk of equal values": (lambda x: x.round().topk(3)[0], _plain),
        "sign of NaN and zeros": (torch.sign, _odd),
        "sign bit of zeros": (lambda x: _signs(-x), _halves),
        "negative zero kept": (lambda x: 1 / (x * 1.0), _odd),
        "isnan, isinf, isfinite": (lambda x: (x.isnan(), x.isinf(), x.isfinite()), _odd),
        "nan_to_num": (lambda x: x.nan_to_num(0.5, 9.0, -9.0), _odd),
        "comparisons with NaN": (lambda x: (x == x.clone(), x < 1, x >= 0), _odd),
        "where with NaN not taken": (lambda x: torch.where(x > 0, x, 0.0), _odd),
        "masked_fill with -inf, softmax": (
            lambda x: x.masked_fill(x > -9, float("-inf")).softmax(1),
            _plain,
        ),
        "log_softmax of huge values": (lambda x: (x * 1e30).log_softmax(1), _plain),
        "logsumexp of -inf": (lambda x: torch.logsumexp(x - float("inf"), 1), _plain),
        "round to even": (torch.round, _halves),
        "floor, ceil, trunc": (lambda x: (x.floor(), x.ceil(), x.trunc()), _halves),
        "remainder of negatives": (lambda x: torch.remainder(x, -1.5), _halves),
        "fmod of negatives": (lambda x: torch.fmod(x, 1.5), _halves),
        "atan2 of signed zeros": (lambda x: torch.atan2(x * 0, x), _halves),
        "floor division of floats": (lambda x: x // -0.7, _halves),
        "division by zero": (lambda x: x / (x * 0), _halves),
        "pow of negatives and zero": (lambda x: (x**0, x**-1, x**0.5, x**3), _odd),
        "sqrt, log of negatives": (lambda x: (x.sqrt(), x.log(), x.rsqrt()), _odd),
        "float to int": (lambda x: x.clamp(-9, 9).to(torch.int64), _halves),
        "float to uint8": (lambda x: x.clamp(0, 9).to(torch.uint8), _halves),
        "float to bool": (lambda x: x.to(torch.bool), _odd),
        "cumsum past NaN": (lambda x: x.cumsum(1), _odd),
        "mean of nothing": (lambda x: x[:0].mean(), _plain),
        "sum and prod of nothing": (lambda x: (x[:0].sum(0), x[:0].prod(0)), _plain),
        "matmul over no elements": (lambda x: x[:, :0] @ x[:0], _plain),
        "cat with nothing": (lambda x: torch.cat([x, x[:0], x]), _plain),
        "max pooling of NaN": (lambda x: F.max_pool2d(x[None, None], 2), _odd),
        "max pooling of -inf, padded": (
            lambda x: F.max_pool2d(x[None, None] - float("inf"), 3, 1, 1),
            _plain,
        ),
        "last column": (lambda x: x[:, -1], _plain),
        "negative slices": (lambda x: x[-3:-1, 1:-1:2], _plain),
        "slice past the end": (lambda x: x[2:99, -99:2], _plain),
        "add with alpha": (lambda x: torch.add(x, x.flip(0), alpha=-2.5), _plain),
        "sub with alpha": (lambda x: torch.sub(1.0 + x, x, alpha=2), _plain),
        "addmm with beta 0 on NaN": (
            lambda x: torch.addmm(x[:, :4] * float("nan"), x, x.t(), beta=0, alpha=2),
            _plain,
        ),
        "negative indices": (lambda x, i: x[i], _plain, lambda: _index(-1, 0, -4)),
        "two negative indices": (lambda x, i: x[i, i], _plain, lambda: _index(-1, 2)),
        "index_put accumulating": (
            _accumulated,
            _plain,
            lambda: _index(-1, 0, -1),
            lambda: torch.ones(3, 6),
        ),
        "gather, index_select": (
            lambda x, i: (x.gather(1, i.expand(4, 3)), x.index_select(0, i)),
            _plain,
            lambda: _index(2, 0, 2),
        ),
        "scatter_add on equal places": (
            lambda x, i: torch.zeros(3).scatter_add(0, i, x[0]),
            _plain,
            lambda: _index(2, 0, 2, 1, 1, 2),
        ),
        "embedding with padding_idx": (
            lambda x, i: F.embedding(i, x, padding_idx=1),
            _plain,
            lambda: _index(1, 3, 1),
        ),
        "transposed input": (lambda x: x * 2 + 1, lambda: _plain().t()),
        "every other element": (lambda x: x * 2 + 1, lambda: _plain()[::2, 1::2]),
        "expanded input": (lambda x: x + 1, lambda: _plain()[:1].expand(4, 6)),
        "input added to in place": (_increment, _plain),
        "row of the input set": (_row_set, _plain),
        "the same result twice, and the input": (lambda x: (x + 1, x, x[0]), _plain),
        "scalar tensors": (lambda x: x * 2 - x.abs(), lambda: torch.tensor(-1.5)),
        "a tensor and a float64 number": (lambda x: x * 0.1 + 1e-9, _plain),
    },
    "int64": {
        "sum that overflows": (lambda x: x.sum(1), _large),
        "product that overflows": (lambda x: (x * x, x * 3, x.prod(1)), _large),
        "addition that overflows": (lambda x: (x + x, x - 1, x + 1), _large),
        "abs and neg of the least": (lambda x: (x.abs(), -x), _large),
        "beyond float's integers": (lambda x: (x == x - 1, x > x - 1, x.amax(1)), _large),
        "division of negatives": (
            lambda x: (
                torch.div(x, 3, rounding_mode="floor"),
                torch.div(x, 3, rounding_mode="trunc"),
                x % 3,
                torch.fmod(x, 3),
            ),
            _large,
        ),
        "division by a negative": (lambda x: (x // -3, x % -3), _large),
        "true division": (lambda x: x / 7, _large),
        "to int32 and back": (lambda x: x.to(torch.int32).to(torch.int64) + 1, _large),
        "shifts and masks": (lambda x: (x << 3, x >> 2, x & 255, x | 1, ~x, x ^ 5), _large),
        "clamp at wide bounds": (lambda x: x.clamp(-(2**60), 2**60), _large),
        "cumsum that overflows": (lambda x: x.cumsum(1), _large),
        "sort and argmax of large": (lambda x: (x.sort(1)[0], x.argmax(1)), _large),
        "pow that overflows": (lambda x: (x**3, x**0), _large),
        "mean of ints as float": (lambda x: x.float().mean(1), _large),
        "arange over the end": (lambda x: x + torch.arange(-2, 2), _large),
    },
    "bool": {
        "sum of truths": (lambda x: (x.sum(), x.sum(1), x.cumsum(1)), _truth),
        "truths times truths": (lambda x: (x * x, x + x, x & ~x, x ^ x), _truth),
        "truths as numbers": (lambda x: (x + 1, x * 2.5, x.float() - 1), _truth),
        "any and all of nothing": (lambda x: (x[:0].any(), x[:0].all(), x.any(1)), _truth),
        "argmax of truths": (lambda x: (x.int().argmax(1), x.amax(1)), _truth),
        "masked values": (lambda x: torch.where(x, 1.5, -2), _truth),
    },
}
"""By dtype and name: a function, and what makes each of its inputs."""
