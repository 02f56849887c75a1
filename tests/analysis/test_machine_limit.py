"""The roofline by hand: a machine of 100 operations and 10 bytes a second."""

from __future__ import annotations

import pytest

from dynamo_ext.analysis.machine_limit import Limit, gains, limit, share_of_calls
from dynamo_ext.records.machine import MachineLimits, Work

MACHINE = MachineLimits(
    "Some CPU", 2, "2", (("float32", 100.0), ("bf16", 300.0)), ((100, 50.0), (1000, 10.0)), 0.5
)


def test_the_slower_of_the_two_binds() -> None:
    assert limit(Work(1000, 10, 1), MACHINE) == Limit(10.0, "products")
    assert limit(Work(10, 1000, 1), MACHINE) == Limit(100.0, "memory")


def test_few_bytes_stay_in_a_cache_and_more_than_any_do_not() -> None:
    assert limit(Work(0, 100, 1), MACHINE) == Limit(2.0, "memory")
    assert limit(Work(0, 5000, 1), MACHINE) == Limit(500.0, "memory")


def test_a_lower_precision_has_its_own_rate_and_half_the_bytes() -> None:
    assert limit(Work(900, 10, 1), MACHINE, "bf16") == Limit(3.0, "products")
    assert limit(Work(0, 1000, 1), MACHINE, "bf16") == Limit(50.0, "memory")


@pytest.mark.parametrize(("work", "precision"), [(Work(1, 1, 1), "int8"), (Work(0, 0, 3), "")])
def test_without_kernels_or_work_there_is_none(work: Work, precision: str) -> None:
    assert limit(work, MACHINE, precision) is None


def test_what_gains_is_bound_otherwise() -> None:
    assert gains(Work(3000, 10, 1), MACHINE) == [("bf16", 3.0)]
    assert gains(Work(0, 5000, 1), MACHINE) == [("bf16", 2.0)]
    slow = MachineLimits("", 1, "", (("float32", 100.0), ("bf16", 50.0)), ((10, 1e9),), 0.5)
    assert gains(Work(3000, 10, 1), slow) == []


def test_calls_take_their_share_of_eager() -> None:
    assert share_of_calls(Work(0, 1, 10), MACHINE, 20.0) == 0.25
    assert share_of_calls(Work(0, 1, 10), MACHINE, 1.0) == 1.0
