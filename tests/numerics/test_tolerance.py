"""What counts as the same result."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_ext.numerics.verdict import disagreement

pytestmark = pytest.mark.filterwarnings("ignore:ComplexHalf support is experimental")

INF, NAN = torch.inf, torch.nan


def pair(a: Any, b: Any, dtype: torch.dtype = torch.float32) -> str:
    return disagreement([torch.tensor(a, dtype=dtype)], [torch.tensor(b, dtype=dtype)])


@pytest.mark.parametrize(
    ("a", "b", "dtype"),
    [
        ([1.0, 2.0], [1.0, 2.0], torch.float32),
        ([1.0005, 2.0], [1.0, 2.0], torch.float32),
        ([1e4, 0.5], [1e4, 0.0], torch.float32),
        ([NAN, INF, -INF], [NAN, INF, -INF], torch.float32),
        ([1.01], [1.0], torch.bfloat16),
        ([], [], torch.float32),
        ([1, 2], [1, 2], torch.int64),
        ([1.0, 2.005 + 1j], [1.0, 2.0 + 1j], torch.complex32),
    ],
)
def test_agreement(a: Any, b: Any, dtype: torch.dtype) -> None:
    assert pair(a, b, dtype) == ""


@pytest.mark.parametrize(
    ("a", "b", "dtype", "word"),
    [
        ([1.01, 2.0], [1.0, 2.0], torch.float32, "1 of 2"),
        ([2e-3], [1e-3], torch.float32, "off"),
        ([1.0 + 1e-5], [1.0], torch.float64, "off"),
        ([NAN], [1.0], torch.float32, "NaN"),
        ([1.0], [NAN], torch.float32, "not the NaN"),
        ([3e38], [INF], torch.float32, "or infinity"),
        ([-INF], [INF], torch.float32, "or infinity"),
        ([1.2], [1.0], torch.bfloat16, "off"),
        ([1, 3], [1, 2], torch.int64, "differ"),
        ([True], [False], torch.bool, "differ"),
        ([1.2 + 1j], [1.0 + 1j], torch.complex32, "off"),
    ],
)
def test_disagreement(a: Any, b: Any, dtype: torch.dtype, word: str) -> None:
    assert word in pair(a, b, dtype)


def test_kinds() -> None:
    x = torch.ones(2)
    assert "2 outputs" in disagreement([x, x], [x])
    assert "dtype" in disagreement([x.double()], [x])
    assert "shape (1, 2)" in disagreement([x[None]], [x])
    assert "a int" in disagreement([3], [x])
    assert disagreement([3, None, x], [3, None, x]) == ""
    assert "3 where eager gives 4" in disagreement([3], [4])
    assert disagreement([torch.ones(2, dtype=torch.complex64)], [x.to(torch.complex64)]) == ""
