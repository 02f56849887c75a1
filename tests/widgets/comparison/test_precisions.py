"""A comparison of precisions: its column, and the bounds of accuracy."""

from __future__ import annotations

import dataclasses

from dynamo_ext.widgets.comparison import accuracy, columns, table
from tests.widgets import comparisons


def candidate(name: str, precision: str):
    bound = None if precision == "float32" else 0.05
    measured = dataclasses.replace(comparisons.CLOSE, sqnr=52.0, bound=bound)
    made = comparisons.row(name, 1e-3, 1.5, accuracy=(measured,))
    return dataclasses.replace(made, precision=precision)


NAMES = {"openvino": "float32", "openvino:bf16": "bf16", "onnxrt:int8": "int8"}
ROWS = [candidate(name, precision) for name, precision in NAMES.items()]
RECORD = dataclasses.replace(comparisons.FULL, candidates=(comparisons.EAGER, *ROWS))


def test_precision_is_a_column_where_there_is_one(page):
    assert RECORD.has_precisions
    assert not comparisons.FULL.has_precisions
    assert "Precision" in page(table.html(RECORD, RECORD.candidates)).text
    assert "Precision" not in page(table.html(comparisons.FULL, comparisons.FULL.candidates)).text
    cells = [columns.BY_TITLE["Precision"].cell(RECORD, each) for each in RECORD.candidates[:3]]
    assert cells == ["float32", "float32", "bf16"]


def test_the_accuracy_table_says_the_bound(page):
    said = page(accuracy.html(RECORD.candidates)).text
    assert "the root mean square error may be 0.05 in bf16, 0.05 in int8" in said
    assert "52.0 dB" in said
