"""What engines take: one small model for real, and the page."""

from __future__ import annotations

import pytest

from benchmarks.partition import __main__ as partition
from benchmarks.partition import run
from benchmarks.partition.run import Left, Row, Taken
from benchmarks.zoo.form import TINY


def test_the_page():
    whole = Taken("tvm", 10, 10, 1, 0, 0.0, 0.0, ())
    some = Taken("xla", 10, 7, 2, 3, 0.25, 0.01, (Left("sort", 0.2496), Left("add", 0.0004)))
    none = Taken("lazy", 10, 0, 0, 0, 1.0, 0.0, (Left("sort", 1.0),))
    rows = [Row("one", (whole, some, none)), Row("two", error="It crashed."), Row("three")]
    page = partition.document(rows, "Measured with: a machine.")
    assert "| model | `tvm` | `xla` | `lazy` |" in page
    assert "| one | whole | 7 of 10, 2 / 3, 25.0% + 1.0% | nothing |" in page
    assert "| two | It crashed. |" in page
    assert "| three | Dynamo captures no graph of it. |" in page
    assert "| `xla` | 70.0% | 74.0% | 0 of 1 | 26.0% | 3 |" in page
    assert "| one | `xla` | `sort` 25.0% | 4.0 |" in page
    # Who takes nothing has no speedup to lose.
    assert "| one | `lazy` |" not in page


@pytest.mark.parametrize("engine", ["onnxrt", "tvm"])
def test_a_small_model_for_real(engine):
    pytest.importorskip({"onnxrt": "onnxruntime", "tvm": "tvm"}[engine])
    row = run.measure("dict-in-dict-out", [engine], form=TINY)
    assert not row.error
    (taken,) = row.taken
    # torch keeps NaN in `argmax` where TVM passes over it.
    refused = ["argmax"] if engine == "tvm" else []
    assert 0 < taken.in_engine == taken.operations - len(refused)
    assert taken.parts >= 1
    assert [each.operator for each in taken.operators] == refused
    assert taken.left < 1
    assert Row.from_dict(row.to_dict()) == row


def test_layers_between_exits_are_captured():
    row = run.measure("early exit", ["ts"], form=TINY)
    [taken] = row.taken
    assert (taken.in_engine, taken.parts, row.error) == (taken.operations, 1, "")
