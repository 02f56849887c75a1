"""TVM by rule and tuned: one tiny model for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks.tvm_tuning import __main__ as tvm_tuning
from benchmarks.tvm_tuning import run
from benchmarks.tvm_tuning.run import Row, Search, Speed
from benchmarks.zoo import MODELS
from benchmarks.zoo.form import TINY


def _row(model: str, times: float) -> Row:
    speeds = [Speed(times * each, times * each - 0.1, times * each + 0.1) for each in (1, 2, 4)]
    searches = (
        Search(64, 2, 128, 30.0, speeds[1]),
        Search(512, 2, 1024, 300.0, speeds[2]),
    )
    return Row(model, 0.002, speeds[0], searches, 1.5, 2.5)


def test_the_page() -> None:
    rows = [_row("one", 1.0), _row("two", 4.0), Row("three", error="tvm: failed. Why.")]
    page = tvm_tuning.document(rows, "Measured with: a machine.")
    assert (
        "| one | 2.00 | 1.00 (0.90–1.10) | 2.00 (1.90–2.10) | 128 of 2 functions | 30 "
        "| 4.00 (3.90–4.10) | 1024 of 2 functions | 300 | 1.5 | 2.5 |" in page
    )
    assert "| **geometric mean** |  | **2.00** | **4.00** |  |  | **8.00** |  |  |  |  |" in page
    assert "| three | tvm: failed. Why. |" in page


def test_its_models_are_of_the_zoo() -> None:
    assert set(tvm_tuning.MODELS) <= set(MODELS)


@pytest.mark.alone
def test_a_small_model_for_real(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tvm")
    monkeypatch.setattr(run, "STARTS", 1)
    row = run.measure("MLP", (2,), form=TINY, budget=1.0, search=30.0)
    assert not row.error
    assert [search.trials for search in row.searches] == [2]
    assert all(search.measured >= search.functions > 0 for search in row.searches)
    assert row.known_start > 0
    assert row.rule_start > 0
    assert Row.from_dict(row.to_dict()) == row
