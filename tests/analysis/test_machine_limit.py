"""The roofline by hand: a machine of 100 operations and 10 bytes a second."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.machine_limit import limit
from dynamo_ext.records.machine import MachineLimits, Work

MACHINE = MachineLimits(
    "Some CPU", 2, "2", (("float32", 100.0), ("bf16", 300.0)), ((100, 50.0), (1000, 10.0))
)


def test_the_slower_of_the_two_binds() -> None:
    assert limit(Work(1000, 10), MACHINE) == (10.0, "products", "float32")
    assert limit(Work(10, 1000), MACHINE) == (100.0, "memory", "float32")


def test_few_bytes_stay_in_a_cache_and_more_than_any_do_not() -> None:
    assert limit(Work(0, 100), MACHINE) == (2.0, "memory", "float32")
    assert limit(Work(0, 5000), MACHINE) == (500.0, "memory", "float32")


def test_a_lower_precision_has_its_own_rate_and_half_the_bytes() -> None:
    assert limit(Work(900, 10), MACHINE, "bf16") == (3.0, "products", "bf16")
    assert limit(Work(0, 1000), MACHINE, "bf16") == (50.0, "memory", "bf16")


def test_int8_narrows_weights_alone() -> None:
    machine = dataclasses.replace(MACHINE, products=(("float32", 100.0), ("int8", 400.0)))
    assert limit(Work(0, 1000, weights=800), machine, "int8") == (40.0, "memory", "int8")


def test_code_in_bfloat16_has_bfloat16s_limit() -> None:
    assert limit(Work(1500, 10, "bf16"), MACHINE) == (5.0, "products", "bf16")


@pytest.mark.parametrize(("work", "precision"), [(Work(1, 1), "int8"), (Work(0, 0), "")])
def test_without_kernels_or_work_there_is_none(work: Work, precision: str) -> None:
    assert limit(work, MACHINE, precision) is None
