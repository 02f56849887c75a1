"""A bound of accuracy as a user writes it, and what meets it."""

from __future__ import annotations

import math

import pytest
import torch

from dynamo_ext.errors import OptionError
from dynamo_ext.numerics.accuracy_bound import AccuracyBound

EXACT = torch.tensor([[3.0, 4.0], [5.0, 1.0], [0.0, 2.0], [1.0, 7.0]], dtype=torch.float64)


@pytest.mark.parametrize(
    ("text", "metric", "limit", "sign"),
    [
        ("cosine>=0.999999999", "cosine", 0.999999999, ">="),
        (" rel <= 1e-2 ", "rel", 0.01, "<="),
        ("top1>=1", "top1", 1.0, ">="),
    ],
)
def test_what_is_read(text: str, metric: str, limit: float, sign: str) -> None:
    found = AccuracyBound.parse(text)
    assert found == AccuracyBound(metric, limit, sign)
    assert AccuracyBound.parse(str(found)) == found


@pytest.mark.parametrize(
    "text", ["", "cosine", "cosine<=1", "rel>=1", "psnr>=30", "cosine>=2", "rel<=nan", "top1>=x"]
)
def test_what_is_no_bound(text: str) -> None:
    with pytest.raises(OptionError, match="is not a bound of accuracy"):
        AccuracyBound.parse(text)


@pytest.mark.parametrize(
    ("text", "found", "meets"),
    [
        ("cosine>=0.999999", EXACT * 2, True),
        ("cosine>=0.99", EXACT.flip(0), False),
        ("rel<=0.1", EXACT * 1.09, True),
        ("rel<=0.1", EXACT * 1.11, False),
        ("top1>=0.75", torch.cat([EXACT[:2].flip(1), EXACT[2:]]), False),
        ("top1>=1", EXACT * 0.1, True),
        ("rel<=1", EXACT / torch.tensor([1.0, 0.0]), False),
    ],
)
def test_what_meets_it(text: str, found: torch.Tensor, meets: bool) -> None:
    said = AccuracyBound.parse(text).judge(found, EXACT)[0]
    assert (said == "") == meets
    assert meets or "asked for" in said or "not finite" in said


def largest(found: torch.Tensor, exact: torch.Tensor) -> torch.Tensor:
    return (found - exact).abs().max()


@pytest.mark.parametrize(
    ("text", "meets"), [("metric<=2", True), ("metric<=0.5", False), ("metric>=1", True)]
)
def test_a_function_of_the_users_judges(text: str, meets: bool) -> None:
    bound = AccuracyBound.parse(text, largest)
    assert (bound.judge(EXACT + 1, EXACT)[0] == "") == meets


@pytest.mark.parametrize(
    ("text", "function"), [("metric>=1", None), ("cosine>=0.9", largest), ("metric>=inf", largest)]
)
def test_a_metric_and_its_bound_go_together(text: str, function: object) -> None:
    with pytest.raises(OptionError, match=r"--metric f --accuracy|asked|top1>=0.99"):
        AccuracyBound.parse(text, function)


@pytest.mark.parametrize("gives", [ValueError, "a text"])
def test_a_metric_that_raises_or_gives_no_number_is_named(gives: object) -> None:
    def bad(*_: object) -> object:
        if isinstance(gives, type):
            raise gives
        return gives

    with pytest.raises(OptionError, match="The metric bad raised ValueError"):
        AccuracyBound.parse("metric>=1", bad).judge(EXACT, EXACT)[0]


def test_integers_must_be_equal() -> None:
    bound = AccuracyBound.parse("rel<=1")
    assert bound.judge(torch.tensor([1]), torch.tensor([1]))[0] == ""
    assert bound.judge(torch.tensor([1]), torch.tensor([2]))[0] != ""
    assert "shape" in bound.judge(EXACT[0], EXACT)[0]


def test_results_without_elements_or_of_zeros() -> None:
    nothing, zeros = torch.zeros(0, 3), torch.zeros(2, 3)
    for text in ("cosine>=1", "rel<=0", "top1>=1"):
        bound = AccuracyBound.parse(text)
        assert bound.judge(nothing, nothing)[0] == ""
        assert bound.judge(zeros, zeros)[0] == ""
    assert math.isfinite(AccuracyBound.parse("cosine>=1").limit)


@pytest.mark.parametrize(("text", "reached"), [("rel<=0.1", 0.5), ("cosine>=0.9", 0.25)])
def test_what_was_reached_is_the_value_that_is_farthest_off(text: str, reached: float) -> None:
    asked = AccuracyBound.parse(text)
    assert asked.worst([0.25, 0.5]) == reached
    assert asked.worst([]) is None
    assert asked.judge(torch.ones(4), torch.ones(4))[1] == pytest.approx(float("cos" in text))
    assert asked.judge(3, 3) == ("", None)
