"""What this machine does is measured, and known until the process ends."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
import torch

from dynamo_ext.measure import machine_limits
from dynamo_ext.measure.machine_limits import measure_machine, measured
from dynamo_ext.timing import machine_load

if TYPE_CHECKING:
    from collections.abc import Callable


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
