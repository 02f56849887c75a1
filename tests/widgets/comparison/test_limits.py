"""How near a comparison's rows are to what the machine can do, in words and in a column."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.comparison import Comparison, GraphComparison, GraphTime
from dynamo_ext.records.machine import Work
from dynamo_ext.widgets.comparison import columns, limits, static
from dynamo_ext.widgets.comparison.number_text import amount
from tests.widgets.comparisons import EAGER, MACHINE, WORK, row, timing

FASTER = row("openvino", 2.5e-3, 1.68)
COLUMN = columns.BY_TITLE["Of limit"]


def record(*rows: object, **changes: object) -> Comparison:
    facts = {"work": WORK, "machine": MACHINE} | changes
    return Comparison("f", "eager", (EAGER, *rows), rounds=40, **facts)


def test_the_best_row_and_what_could_gain() -> None:
    assert limits.sentences(record(FASTER)) == (
        "A run computes 200 MFLOP in products and moves at least 976.6 KiB. The limit of this "
        "machine in float32 is 2.00 ms (bound by products, 100 GFLOP/s). openvino reaches 80% of "
        "it. As near to its own limit, a lower precision would be faster: bf16 3.00×."
    )
    assert COLUMN.cell(record(FASTER), FASTER) == "80%"


def test_memory_binds() -> None:
    said = limits.sentences(record(FASTER, work=Work(0, 20_000_000, 5)))
    assert "19.1 MiB and computes no products. The limit of this machine in float32 is" in said
    assert "2.00 ms (bound by memory, 10 GB/s)" in said
    assert "bf16 2.00×" in said


def test_far_from_the_limit_no_precision_is_promised() -> None:
    said = limits.sentences(record(work=Work(2_000_000, 1000, 5)))
    assert said.endswith("eager reaches <1% of it.")


def test_calls_that_take_eagers_time_are_named() -> None:
    said = limits.sentences(record(work=Work(2_000_000, 1000, 500)))
    assert "Calling 500 operations one by one, at 4.00 µs, takes about 48% of eager's time" in said


def test_a_lower_precision_has_its_own_limit() -> None:
    lowered = dataclasses.replace(FASTER, name="openvino:bf16", precision="bf16")
    assert "openvino:bf16 reaches 27% of the limit in bf16, 667 µs." in limits.sentences(
        record(lowered)
    )
    assert COLUMN.value(record(lowered), dataclasses.replace(lowered, precision="int8")) is None
    assert COLUMN.value(record(lowered), dataclasses.replace(lowered, outcome="eager")) is None


def test_code_in_bfloat16_is_measured_by_its_own_limit() -> None:
    work = dataclasses.replace(WORK, precision="bf16")
    made = record(dataclasses.replace(FASTER, timing=timing(1e-3)), work=work)
    said = limits.sentences(made)
    assert "The limit of this machine in bf16 is 667 µs (bound by products, 300 GFLOP/s)." in said
    assert said.endswith("openvino reaches 67% of it.")


def test_a_machine_that_was_not_measured_is_a_hint() -> None:
    said = limits.sentences(record(FASTER, machine=None))
    assert said.endswith(limits.MEASURE)
    assert COLUMN not in columns.shown(columns.COLUMNS, record(machine=None), [EAGER])


def test_nothing_is_said_of_what_was_not_counted() -> None:
    assert limits.sentences(record(FASTER, work=None)) == ""


def test_a_graph_has_a_limit_of_its_own() -> None:
    times = (
        GraphTime("eager", "measured", timing(4e-3)),
        GraphTime("ts", "measured", timing(2e-3)),
    )
    graph = GraphComparison("g0", 3, 1, times, "ts", work=Work(100_000_000, 1000, 3))
    said = limits.of_graph(record(graphs=(graph,)), graph)
    assert said == (
        "A call computes 100 MFLOP in products and moves at least 1,000 B. The limit of this machine "
        "in float32 is 1.00 ms (bound by products, 100 GFLOP/s). ts reaches 50% of it. As near to "
        "its own limit, a lower precision would be faster: bf16 3.00×."
    )
    assert said in str(static.html(record(graphs=(graph,))))
    assert limits.of_graph(record(machine=None), graph) == ""
    assert limits.of_graph(record(), dataclasses.replace(graph, work=None)) == ""


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
    assert "eager:bf16 reaches 80% of it." in limits.sentences(record(lowered))
