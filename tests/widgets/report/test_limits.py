"""How near a report's graphs are to the machine's limit: a column, a sentence, a chart, a hint."""

from __future__ import annotations

import dataclasses

import pytest
from matplotlib.figure import Figure

from dynamo_ext.errors import OptionError
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.machine import Work
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import graphs, limits, static
from dynamo_ext.widgets.report.limits import Roofline
from tests.widgets.comparisons import MACHINE

PRODUCTS = Work(200_000_000, 1_000_000, 50)
MEMORY = Work(1_000_000, 20_000_000, 5)
LINEAR = Operation("call_function", "linear", "linear", "", "")


def graph(work: Work | None = PRODUCTS, taken: float = 2.5e-3, **facts: object) -> Graph:
    made = Graph("g0", "0/0", "openvino", (LINEAR,), "", 0.0, True, 3, 1.0, work=work)
    return dataclasses.replace(made, **({"pairs": ((taken, 2 * taken),) * 3} | facts))


def report(*found: Graph, **facts: object) -> Report:
    made = Report("optimize", "openvino", "Cell", None, 60.0, 1.0, graphs=found, machine=MACHINE)
    return dataclasses.replace(made, **facts)


def test_products_bind() -> None:
    made = report(graph())
    assert limits.cell(made, made.graphs[0]) == "80% products"
    assert limits.sentence(made, made.graphs[0]) == (
        "A call computes 200 MFLOP in products and moves at least 976.6 KiB. The limit of this "
        "machine in float32 is 2.00 ms (bound by products, 100 GFLOP/s). openvino takes 2.50 ms, "
        "80 GFLOP/s: 80% of the limit. As near to its own limit, a lower precision would be "
        "faster: bf16 3.00×."
    )


def test_memory_binds() -> None:
    made = report(graph(MEMORY))
    assert limits.cell(made, made.graphs[0]) == "80% memory"
    said = limits.sentence(made, made.graphs[0])
    assert "is 2.00 ms (bound by memory, 10 GB/s). openvino takes 2.50 ms, 8 GB/s: 80% of" in said


def test_calls_bind() -> None:
    small = graph(Work(10, 1000, 300), 2e-3, backend="eager")
    made = report(small, backend="eager")
    assert limits.cell(made, small) == "60% calls"
    said = limits.sentence(made, small)
    assert "is 1.20 ms (bound by calls, 300 calls of 4.00 µs). eager takes 2.00 ms: 60%" in said


def test_an_engine_and_operations_beside_it_are_calls() -> None:
    parts = (Partition("p0", "onnxrt", 9), Partition("p1", "eager", 4))
    made = report(graph(Work(10, 1000, 300), 1e-4, partitions=parts))
    assert "bound by calls, 5 calls of 4.00 µs" in limits.sentence(made, made.graphs[0])


def test_without_a_time_there_is_the_limit_alone() -> None:
    made = report(graph(pairs=()))
    assert limits.cell(made, made.graphs[0]) == ""
    assert limits.sentence(made, made.graphs[0]).endswith("(bound by products, 100 GFLOP/s).")


def test_a_dtype_that_was_not_measured_has_no_limit() -> None:
    made = report(graph(Work(200_000_000, 1_000_000, 50, "float64")))
    assert limits.sentence(made, made.graphs[0]) == (
        "A call computes 200 MFLOP in products and moves at least 976.6 KiB."
    )


def test_every_form_has_column_and_sentence() -> None:
    made = report(graph(), graph(None, id="g1"))
    table = graphs.overview(made)
    assert table.headers[-1] == limits.HEADER
    assert [row[-1] for row in table.rows] == ["80% products", ""]
    assert "80%" in graphs.text(made)
    for shown in (static.text(made), str(static.html(made)), made.to_html()):
        assert "A call computes 200 MFLOP in" in shown
        assert limits.MEASURE not in shown


def test_one_hint_where_the_machine_was_not_measured() -> None:
    made = report(graph(None), graph(None, id="g1"), machine=None)
    assert limits.HEADER not in graphs.overview(made).headers
    for shown in (static.text(made).replace("\n", " "), str(static.html(made))):
        assert shown.count("%dynamo machine measures") == 1
    assert limits.hint(report(graph(None, pairs=()), machine=None)) == ""


def test_the_chart_has_a_point_for_each_graph_under_the_roofs_of_their_sizes() -> None:
    caches = dataclasses.replace(MACHINE, reads=((1 << 22, 4e10), (1 << 30, 1e10)))
    other = graph(MEMORY, id="g1", run_seconds=2.0)
    lowered = graph(id="g2", backend="openvino:bf16", precision="bf16", taken=1e-3)
    made = report(graph(), other, lowered, machine=caches)
    axes = made.plot(Figure().add_subplot(), kind="Roofline")
    points = [line.get_xydata()[0] for line in axes.get_lines() if line.get_marker() == "o"]
    assert [(float(f"{x:.3g}"), round(y / 1e8)) for x, y in points] == [
        (0.05, 4), (200, 800), (400, 2000),
    ]  # fmt: skip
    roofs = [line for line in axes.get_lines() if line.get_marker() == "None"]
    assert [line.get_linestyle() for line in roofs] == ["-", "-", "--"]
    assert [text.get_text() for text in axes.texts] == [
        "float32: 100 GFLOP/s, 10 GB/s and 40 GB/s",
        "bf16: 300 GFLOP/s, 40 GB/s",
        "g1 openvino 80%",
        "g0 openvino 80%",
        "g2 openvino:bf16 67%",
    ]
    assert "g0 openvino 80 GFLOP/s, 80% of its limit" in Roofline(made).alt


def test_it_is_in_the_page_and_keeps_a_cell_from_drawing() -> None:
    made = report(graph())
    assert "Roofline" in made.to_html()
    assert "Roofline" not in str(static.html(made))
    assert "Roofline" not in report(graph(Work(0, 1000, 5))).to_html()


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (report(graph(None), machine=None), "%dynamo machine measures"),
        (report(graph(None)), "nothing to draw"),
    ],
)
def test_where_nothing_can_be_drawn_it_says_why(made: Report, said: str) -> None:
    with pytest.raises(OptionError, match=said):
        made.plot(kind="Roofline")


def test_another_chart_is_refused() -> None:
    with pytest.raises(OptionError, match="no chart 'Pie'"):
        report(graph()).plot(kind="Pie")


def test_it_is_saved_and_a_report_of_before_has_none() -> None:
    made = report(graph())
    record = made.to_dict()
    assert Report.from_dict(record) == made
    del record["machine"], record["graphs"][0]["work"], record["graphs"][0]["precision"]
    assert Report.from_dict(record).graphs[0].work is None


def test_what_surpasses_the_limit_says_what_that_can_mean() -> None:
    made = report(graph(taken=0.8e-3))
    assert limits.cell(made, made.graphs[0]) == "250% products"
    said = limits.sentence(made, made.graphs[0])
    assert said.endswith(
        "250% of the limit, which was measured on a busy machine, or the engine computes less than "
        "that."
    )
