"""What one kernel left to Python, the next one does not capture first."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from dynamo_ext.capture.cells import runner
from dynamo_ext.capture.torch_private.patches import loops
from tests.auto.conftest import Company
from tests.capture.listen.test_small_graphs import FUNCTION, calls

if TYPE_CHECKING:
    from tests.capture.live import Live

LONG = "def turn(x): return x.sin() * 2 + 1\ndef long(x):\n  for _ in range(400): x = turn(x)\n  return x"


@pytest.fixture(autouse=True)
def _idle(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "MachineLoad", Company)


def test_another_kernel_leaves_what_this_one_left(cells: Live) -> None:
    cells.well(FUNCTION)
    cell = "z = often(little, 40, x)"
    cells.report(cell)
    cells.well("%dynamo reset")
    again = cells.report(cell)
    assert calls(again) == []
    assert any("few operations" in each.message for each in again.fallbacks)
    assert again.compile_seconds < 5
    assert calls(cells.report("y = little(x)")) == [1]
    assert calls(cells.report(cell, "-b eager --capture all")) == [40]
    cells.well("%dynamo reset")
    cells.well(FUNCTION.replace("+ 1", "+ 2"))
    assert calls(cells.report(cell)) == [40], "the function is another one"


def test_another_kernel_does_not_unroll_a_long_loop(
    cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    cells.well(LONG)
    cell = "z = long(x)"
    cells.report(cell)
    cells.well("%dynamo reset")
    given_up: list[Any] = []
    monkeypatch.setattr(loops, "_give_up", lambda *why: given_up.append(why))
    again = cells.report(cell)
    assert given_up == []
    assert any("loops have many turns" in each.message for each in again.fallbacks)
