"""What this machine does is measured, and known until the process ends; the limit by hand."""

from __future__ import annotations

import dataclasses
import itertools
from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.measure import machine_limits
from dynamo_ext.measure.machine_limits import measure_machine, measured
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.timing import machine_load

if TYPE_CHECKING:
    from collections.abc import Callable


MACHINE = MachineLimits(
    "Some CPU", 2, "2", (("float32", 100.0), ("bf16", 300.0)), ((100, 50.0), (1000, 10.0))
)
"""A machine of 100 operations and 10 bytes a second."""


@pytest.fixture(autouse=True)
def nothing_known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_limits, "_measured", {})
    monkeypatch.setattr(machine_limits, "_SECONDS", 0.001)
    monkeypatch.setattr(machine_load, "_busy", lambda: 0.0)
    monkeypatch.setattr(machine_limits, "_READ", (1 << 10, 1 << 12))


def test_it_is_measured() -> None:
    assert measured() is None
    found = measure_machine()
    rates = dict(found.products)
    assert rates.keys() <= {"float32", "bf16", "fp16", "int8"}
    assert rates["float32"] > 0  # how much depends on what else runs
    assert [size for size, _ in found.reads] == [1 << 10, 1 << 12]
    assert measured() == found


def test_it_holds_for_a_number_of_threads() -> None:
    measure_machine()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        assert measured() is None
    finally:
        torch.set_num_threads(before)


def test_a_precision_without_kernels_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(side: int, device: torch.device) -> object:
        message = "not implemented for this device"
        raise RuntimeError(message)

    monkeypatch.setitem(machine_limits._PRODUCTS, "bf16", (lacking,))
    assert "bf16" not in dict(measure_machine().products)


def test_one_slow_reading_does_not_make_the_matrices_small(monkeypatch: pytest.MonkeyPatch) -> None:
    sides: list[int] = []
    readings = itertools.chain([0.5], itertools.repeat(1e-6))

    def make(side: int, _: torch.device) -> Callable[[], object]:
        sides.append(side)
        return lambda: None

    monkeypatch.setattr(machine_limits.clock, "seconds_per_call", lambda *_: next(readings))
    assert machine_limits._products([make], torch.device("cpu")) > 0
    assert sides[-1] == machine_limits._SIDES["cpu"]


def test_the_slower_of_the_two_binds() -> None:
    assert MACHINE.limit(Work(1000, 10)) == (10.0, "products")
    assert MACHINE.limit(Work(10, 1000)) == (100.0, "memory")


def test_few_bytes_stay_in_a_cache_and_more_than_any_do_not() -> None:
    assert MACHINE.limit(Work(0, 100)) == (2.0, "memory")
    assert MACHINE.limit(Work(0, 5000)) == (500.0, "memory")


def test_a_lower_precision_has_its_own_rate_and_half_the_bytes() -> None:
    assert MACHINE.limit(Work(900, 10), "bf16") == (3.0, "products")
    assert MACHINE.limit(Work(0, 1000), "bf16") == (50.0, "memory")


def test_int8_narrows_weights_alone() -> None:
    machine = dataclasses.replace(MACHINE, products=(("float32", 100.0), ("int8", 400.0)))
    assert machine.limit(Work(0, 1000, weights=800), "int8") == (40.0, "memory")


def test_code_in_bfloat16_has_bfloat16s_limit() -> None:
    assert MACHINE.limit(Work(1500, 10, "bf16")) == (5.0, "products")


@pytest.mark.parametrize(("work", "precision"), [(Work(1, 1), "int8"), (Work(0, 0), "")])
def test_without_kernels_or_work_there_is_none(work: Work, precision: str) -> None:
    assert MACHINE.limit(work, precision) is None
