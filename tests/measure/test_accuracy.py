"""How far results are off, and when that is all right."""

from __future__ import annotations

import dataclasses
import math

import pytest
import torch

from dynamo_ext.measure import accuracy
from dynamo_ext.numerics.accuracy_bound import AccuracyBound


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    hidden: tuple


def test_tensors_are_found_in_containers_and_copied():
    inner = torch.ones(2)
    found = accuracy.collect({"y": {"a": [inner, 3]}, "out": Output(inner, (inner, None))})
    assert list(found) == ["y['a'][0]", "y['a'][1]", "out.logits", "out.hidden[0]"]
    inner.zero_()
    assert found["out.logits"].tolist() == [1, 1]


def test_equal_results_are_right_and_have_no_error():
    value = {"y": torch.randn(10)}
    found = accuracy.against(value, {"y": value["y"].clone()})
    assert (found.within, found.max_abs, found.max_rel) == (True, 0.0, 0.0)
    assert found.cosine == pytest.approx(1.0)


def test_errors_are_measured_against_the_largest_element():
    want = torch.tensor([100.0, 0.001])
    found = accuracy.against({"y": want + torch.tensor([0.0, 0.001])}, {"y": want})
    assert found.max_abs == pytest.approx(0.001, rel=1e-3)
    assert found.max_rel == pytest.approx(1e-5, rel=1e-3)
    assert found.within


@pytest.mark.parametrize(
    ("got", "want", "words"),
    [
        (torch.ones(3), torch.zeros(3), "off"),
        (torch.ones(3), torch.ones(4), "shape"),
        (torch.ones(3), torch.ones(3, dtype=torch.float64), "dtype"),
        (torch.tensor([math.nan]), torch.ones(1), "NaN"),
        (torch.tensor([1]), torch.tensor([2]), "differ"),
        (1, 2, "eager gives 2"),
        (torch.tensor([math.inf]), torch.tensor([-math.inf]), "or infinity"),
    ],
)
def test_what_is_wrong_is_said(got, want, words):
    found = accuracy.against({"y": got}, {"y": want})
    assert not found.within
    assert words in found.detail
    assert found.detail.startswith("y: ")


def test_a_result_that_only_one_has_is_wrong():
    found = accuracy.against({}, {"y": torch.ones(1)})
    assert not found.within
    assert "y" in found.detail


GRADIENT = "w.grad"


def test_gradients_in_a_lower_precision_may_be_twice_as_far_off():
    exact = {name: torch.ones(4, dtype=torch.float64) for name in ("w", GRADIENT)}
    eager = {name: value.float() for name, value in exact.items()}
    near = {"w": eager["w"], GRADIENT: eager["w"] * 1.09}
    assert accuracy.lowered(near, eager, exact, "bf16").within
    far = {"w": eager["w"], GRADIENT: eager["w"] * 1.11}
    assert "bf16 may have 0.1." in accuracy.lowered(far, eager, exact, "bf16").detail
    result = {"w": eager["w"] * 1.09, GRADIENT: eager["w"]}
    assert "bf16 may have 0.05." in accuracy.lowered(result, eager, exact, "bf16").detail


@pytest.mark.parametrize(("size", "within"), [(1e-4, True), (1e-2, False)])
def test_what_is_rounding_in_eager_is_rounding_in_a_lower_precision(size, within):
    exact = {GRADIENT: torch.full((4,), 1e-18, dtype=torch.float64)}
    eager = {GRADIENT: torch.full((4,), 1e-8)}
    found = {GRADIENT: torch.full((4,), size)}
    bound = AccuracyBound.parse("cosine>=0.9999")
    assert accuracy.lowered(found, eager, exact, "bf16", bound).within is within


def test_what_eager_overflows_in_is_judged_all_the_same():
    exact = {"y": torch.tensor([1e40, 2.0], dtype=torch.float64)}
    eager = {"y": torch.tensor([math.inf, 2.0])}
    assert not accuracy.lowered({"y": torch.zeros(2)}, eager, exact, "bf16").within


@pytest.mark.parametrize(
    ("found", "expected", "away"),
    [
        ([1.0, 2.0], [1.0, 4.0], 2**0.5),
        ([math.inf, math.nan], [math.inf, math.nan], 0.0),
        ([math.inf], [-math.inf], math.inf),
        ([math.nan], [1.0], math.inf),
    ],
)
def test_the_distance_of_two_tensors(found, expected, away):
    assert accuracy.distance(torch.tensor(found), torch.tensor(expected)) == pytest.approx(away)
    assert accuracy.distance(torch.tensor(found), torch.tensor(expected).double()) == math.inf


def test_opposite_results_have_the_opposite_cosine():
    found = accuracy.against({"y": -torch.ones(3)}, {"y": torch.ones(3)})
    assert found.cosine == pytest.approx(-1.0)


def test_nan_for_nan_is_right():
    value = torch.tensor([math.nan, 1.0])
    assert accuracy.against({"y": value}, {"y": value.clone()}).within


def test_float64_allows_what_eager_itself_is_off_by():
    exact = torch.randn(1_000, dtype=torch.float64)
    eager = exact + 1e-3 * torch.randn(1_000)
    alike = exact + 1e-3 * torch.randn(1_000)
    worse = exact + 1e-1 * torch.randn(1_000)

    def judged(found):
        return accuracy.against_float64({"y": found.float()}, {"y": eager.float()}, {"y": exact})

    assert judged(alike).within
    assert not judged(worse).within
    assert "float64" in judged(worse).detail


def test_empty_results_are_right():
    assert accuracy.against({"y": torch.ones(0)}, {"y": torch.ones(0)}).within
    assert accuracy.against({}, {}).within


@pytest.mark.parametrize(
    ("got", "want", "beside", "right"),
    [
        (1.1002482175827026, 1.1002483367919922, {}, True),
        (1.1002, 1.1302, {}, False),
        (math.nan, math.nan, {}, True),
        (math.nan, 1.0, {}, False),
        (math.inf, 1e300, {}, False),
        (1.1002482175827026, 1.1002483367919922, {"y": torch.ones(2).double()}, True),
        (1.1002, 1.1003, {"y": torch.ones(2).double()}, False),
        (1.11, 1.12, {"y": torch.ones(2).bfloat16()}, True),
        (3, 4, {}, False),
        (True, False, {}, False),
        (0.1 + 1e-9j, 0.1j + 0.1, {}, False),
    ],
)
def test_a_number_is_as_exact_as_the_tensors_that_it_was_read_from(got, want, beside, right):
    found = accuracy.against({"loss": got, **beside}, {"loss": want, **beside})
    assert found.within is right
    assert bool(found.detail) is not right


def test_beyond_the_tolerance_a_result_may_be_as_near_to_float64_as_eager():
    exact = {"y": torch.randn(1_000).double(), "n": 3}
    eager = {"y": (exact["y"] + 1e-2 * torch.randn(1_000)).float(), "n": 3}
    alike = {"y": (exact["y"] + 1e-2 * torch.randn(1_000)).float(), "n": 3}
    assert not accuracy.against(alike, eager).within
    assert not accuracy.no_better_than_eager(alike, eager, exact)
    assert accuracy.no_better_than_eager({**alike, "n": 4}, eager, exact)
    assert accuracy.no_better_than_eager({"y": alike["y"]}, eager, exact)
    assert accuracy.no_better_than_eager(alike, eager, {**exact, "y": exact["y"].float()})
    assert accuracy.no_better_than_eager(alike, eager, {})
