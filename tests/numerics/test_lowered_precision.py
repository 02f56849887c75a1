"""Results in a lower precision are right within a bound of their own."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch

from dynamo_ext.numerics import lowered_precision
from dynamo_ext.numerics.lowered_precision import BOUNDS
from dynamo_ext.numerics.verdict import Allowance, disagreement, lowered


def difference(found: Any, right: Any, precision: str) -> str:
    return lowered(found, right, right, Allowance(precision))[0]


EXACT = torch.linspace(1, 2, 100, dtype=torch.float64)


@pytest.mark.parametrize("precision", BOUNDS)
def test_the_bound(precision: str) -> None:
    within, beyond = (EXACT * (1 + BOUNDS[precision] * part) for part in (0.9, 1.1))
    assert difference(within.float(), EXACT, precision) == ""
    assert f"{precision} may have {BOUNDS[precision]:g}" in difference(beyond, EXACT, precision)


def test_small_elements_may_be_off_by_all_of_themselves() -> None:
    exact = torch.tensor([1000.0, 0.001])
    assert difference(torch.tensor([1000.0, 0.0]), exact, "bf16") == ""


@pytest.mark.parametrize("odd", [math.inf, math.nan])
def test_what_is_not_finite(odd: float) -> None:
    found = EXACT.clone()
    found[3] = odd
    assert "not finite" in difference(found, EXACT, "fp16")
    assert difference(found, found.clone(), "fp16") == ""


def test_other_kinds_must_be_equal() -> None:
    assert difference(torch.tensor([1, 2]), torch.tensor([1, 2]), "int8") == ""
    assert "1 of 2 values differ" in difference(torch.tensor([1, 3]), torch.tensor([1, 2]), "int8")
    assert "shape" in difference(EXACT[:2], EXACT, "int8")
    assert difference(3, 4, "int8") == "3 where eager gives 4."


def test_the_output_is_named() -> None:
    right = [EXACT, EXACT]
    assert disagreement([EXACT, EXACT * 2], right, list, "bf16").startswith("Output 1: ")
    assert disagreement([EXACT], right, list, "bf16") == "1 outputs came where 2 were expected."


def test_an_exact_zero() -> None:
    zero = torch.zeros(3)
    assert lowered_precision.relative_error(zero, zero) == 0.0
    assert lowered_precision.relative_error(zero + 1, zero) == math.inf
