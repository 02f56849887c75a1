"""How near a comparison's rows are to what the machine can do, in words and in a column."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.comparison import Comparison
from dynamo_ext.records.machine import Work
from dynamo_ext.widgets.comparison import columns, static, summary
from dynamo_ext.widgets.comparison.number_text import amount
from tests.widgets.comparisons import EAGER, MACHINE, WORK, row, timing

FASTER = row("openvino", 2.5e-3, 1.68)
COLUMN = columns.BY_TITLE["Of limit"]


def record(*rows: object, **changes: object) -> Comparison:
    facts = {"work": WORK, "machine": MACHINE} | changes
    return Comparison("f", "eager", (EAGER, *rows), rounds=40, **facts)


def test_products_bind_the_best_row() -> None:
    assert summary.limit(record(FASTER)) == (
        "A run computes 200 MFLOP in products and moves at least 976.6 KiB: openvino reaches 80% "
        "of the limit of this machine in float32 (2.00 ms, bound by products)."
    )
    assert COLUMN.cell(record(FASTER), FASTER) == "80%"


def test_memory_binds() -> None:
    said = summary.limit(record(FASTER, work=Work(0, 20_000_000)))
    assert "19.1 MiB and computes no products: openvino reaches" in said
    assert said.endswith("in float32 (2.00 ms, bound by memory).")


def test_a_lower_precision_has_its_own_limit() -> None:
    lowered = dataclasses.replace(FASTER, name="openvino:bf16", precision="bf16")
    assert "openvino:bf16 reaches 27% of the limit of this machine in bf16" in summary.limit(
        record(lowered)
    )
    assert COLUMN.value(record(lowered), dataclasses.replace(lowered, precision="int8")) is None
    assert COLUMN.value(record(lowered), dataclasses.replace(lowered, outcome="eager")) is None


def test_code_in_bfloat16_is_measured_by_its_own_limit() -> None:
    work = dataclasses.replace(WORK, precision="bf16")
    made = record(dataclasses.replace(FASTER, timing=timing(1e-3)), work=work)
    said = summary.limit(made)
    assert said.endswith(
        "reaches 67% of the limit of this machine in bf16 (667 µs, bound by products)."
    )


def test_a_machine_that_was_not_measured_is_a_hint() -> None:
    said = summary.limit(record(FASTER, machine=None))
    assert said.endswith(
        "%dynamo machine measures what this machine can do; a comparison then shows how near to it "
        "each row is."
    )
    assert COLUMN not in columns.shown(columns.COLUMNS, record(machine=None), [EAGER])


def test_nothing_is_said_of_what_was_not_counted() -> None:
    assert summary.limit(record(FASTER, work=None)) == ""


def test_text_and_html_have_it() -> None:
    for shown in (static.text(record(FASTER)), str(static.html(record(FASTER)))):
        assert "A run computes 200 MFLOP" in shown


def test_it_goes_to_json_and_back() -> None:
    made = record(FASTER)
    assert Comparison.from_dict(made.to_dict()) == made


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0 B/s"), (12, "12 B/s"), (999.6, "1 kB/s"), (1e9, "1 GB/s"), (2.5e19, "2.5e+04 PB/s")],
)
def test_large_numbers_have_a_prefix(value: float, text: str) -> None:
    assert amount(value, "B/s") == text


def test_a_row_that_ran_in_float32_is_measured_by_its_limit() -> None:
    lowered = dataclasses.replace(FASTER, name="eager:bf16", precision="bf16", lowered=0)
    assert COLUMN.cell(record(lowered), lowered) == "80%"
    assert "eager:bf16 reaches 80% of the limit of this machine in float32" in summary.limit(
        record(lowered)
    )
