"""``%dynamo machine`` as typed."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

from dynamo_ext.backends import disk_cache
from dynamo_ext.backends.known_machines import forget, remembered
from dynamo_ext.measure import machine_limits
from dynamo_ext.timing import machine_load
from tests.capture.live import Live, live

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def cells(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Live]:
    monkeypatch.setenv(disk_cache.FOLDER, str(tmp_path))
    monkeypatch.setattr(machine_limits, "_SECONDS", 0.001)
    monkeypatch.setattr(machine_load, "_busy", lambda: 0.0)
    with live("import torch", "layer, x = torch.nn.Linear(8, 8), torch.ones(2, 8)") as found:
        yield found


def test_it_measures_once_and_comparisons_use_it(cells: Live) -> None:
    shown = cells.well("%dynamo machine").out
    assert "products of matrices: float32" in shown
    assert "FLOP/s" in shown
    assert cells.well("%dynamo machine").out.startswith(shown.partition(":\n")[0])
    cells.well("%%dynamo compare -b eager -n 6 -o table --quiet\ny = layer(x)")
    record = cells.names["table"].record
    assert record.machine == remembered()
    assert record.work.operations == 2 * 2 * 8 * 8
    assert "of the limit of this machine" in str(cells.names["table"]._repr_html_())
    assert "forgotten" in cells.well("%dynamo cache clear").out
    assert remembered() is None


def test_on_a_busy_machine_it_says_that_it_counts_for_now(
    cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine_load, "SHORTEST", 0.0)
    monkeypatch.setattr(machine_load, "_busy", lambda: 1e3 * time.perf_counter())
    shown = cells.well("%dynamo machine").out
    assert "cores busy meanwhile, so it counts in this session alone." in shown
    assert cells.well("%dynamo machine").out == shown
    assert forget() == 1


def test_another_word_is_refused(cells: Live) -> None:
    ran, _ = cells.failed("%dynamo machine again")
    assert "Write it as %dynamo machine [measure]." in str(ran.error)
