"""Speed against error: which candidates no other beats in both."""

from __future__ import annotations

import dataclasses

from dynamo_ext.widgets.comparison import accuracy, columns, table
from dynamo_ext.widgets.comparison.chart import Chart
from dynamo_ext.widgets.comparison.pareto import compared, error, front
from tests.widgets import comparisons


def candidate(name: str, ratio: float, sqnr: float, precision: str = "float32"):
    bound = None if precision == "float32" else 0.05
    measured = dataclasses.replace(comparisons.CLOSE, sqnr=sqnr, bound=bound)
    made = comparisons.row(name, 1e-3, ratio, accuracy=(measured,))
    return dataclasses.replace(made, precision=precision)


ROWS = (
    candidate("openvino", 1.5, 130.0),
    candidate("openvino:bf16", 2.8, 52.0, "bf16"),
    candidate("inductor:bf16", 2.0, 48.0, "bf16"),
    candidate("onnxrt:int8", 3.4, 38.0, "int8"),
)
RECORD = dataclasses.replace(
    comparisons.FULL, candidates=(comparisons.EAGER, *ROWS, *comparisons.NOT_COUNTED)
)


def test_what_is_slower_and_farther_off_is_not_on_the_front():
    rows = compared(RECORD, RECORD.candidates)
    assert [each.name for each in rows] == [each.name for each in ROWS]
    assert [each.name for each in front(rows)] == ["openvino", "openvino:bf16", "onnxrt:int8"]


def test_errors_are_relative():
    assert round(error(ROWS[1]), 6) == 0.002512
    assert error(comparisons.GONE[0]) is None


def test_the_chart_in_words():
    alt = Chart(RECORD, RECORD.candidates, "Error").alt
    assert "openvino:bf16 2.5e-03, 2.80×" in alt
    assert "tvm" not in alt


def test_precision_is_a_column_where_there_is_one(page):
    assert RECORD.has_precisions
    assert not comparisons.FULL.has_precisions
    assert "Precision" in page(table.html(RECORD, RECORD.candidates)).text
    full = comparisons.FULL
    assert "Precision" not in page(table.html(full, full.candidates)).text
    cells = [columns.BY_TITLE["Precision"].cell(RECORD, each) for each in RECORD.candidates[:3]]
    assert cells == ["float32", "float32", "bf16"]


def test_the_accuracy_table_says_the_bound(page):
    said = page(accuracy.html(RECORD.candidates)).text
    assert "the root mean square error may be 0.05 in bf16, 0.05 in int8" in said
    assert "52.0 dB" in said
