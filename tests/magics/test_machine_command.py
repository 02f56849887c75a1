"""``%dynamo machine`` as typed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from dynamo_ext.measure import machine_limits
from dynamo_ext.measure.machine_limits import measured
from dynamo_ext.timing import machine_load
from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def cells(monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setattr(machine_limits, "_measured", {})
    monkeypatch.setattr(machine_limits, "_SECONDS", 0.001)
    monkeypatch.setattr(machine_load, "_busy", lambda: 0.0)
    with live("import torch", "layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)") as found:
        yield found


def test_it_measures_and_comparisons_use_it(cells: Live) -> None:
    shown = cells.well("%dynamo machine").out
    assert "products of matrices: float32" in shown
    assert "FLOP/s" in shown
    cells.well("%%dynamo compare -b eager -n 6 -o table --quiet\ny = layer(x)")
    record = cells.names["table"].record
    assert record.machine == measured()
    assert record.work.operations == 2 * 2 * 8 * 8
    assert "of the limit of this machine" in str(cells.names["table"]._repr_html_())


def test_on_a_busy_machine_it_says_so(cells: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine_load, "SHORTEST", 0.0)
    monkeypatch.setattr(machine_load, "_busy", lambda: 1e3 * time.perf_counter())
    shown = cells.well("%dynamo machine").out
    assert "cores busy meanwhile. Measure again" in shown


def test_another_word_is_refused(cells: Live) -> None:
    ran, _ = cells.failed("%dynamo machine again")
    assert "Write it as %dynamo machine." in str(ran.error)
