"""The notebook from a slow cell to the line of a program, executed, and what it must show."""

from __future__ import annotations

import pytest

from tests.notebooks.executed import texts


@pytest.fixture(scope="module")
def cell():
    return texts("speeding_up")


def test_each_report_answers_what_was_gained(cell):
    for name in ("first", "dynamic", "again", "generate-again"):
        shown = cell(name)
        assert all(f" {line} " in shown for line in ("Gain", "Cost", "Next"))
    assert 'In a program: `torch.compile(model, backend="dx_onnxrt")`' in cell("first")


def test_one_graph_serves_another_batch_and_all_lengths(cell):
    for name in ("again", "generate-again"):
        assert "Nothing was compiled in this run" in cell(name)


def test_less_exact_rows_are_within_the_bound(cell):
    assert "onnxrt:int8" in cell("precision")
    assert "wrong" not in cell("precision")
