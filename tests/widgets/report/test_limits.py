"""How near a report's graphs are to the machine's limit: a sentence, or a hint."""

from __future__ import annotations

import dataclasses

from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.machine import Work
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import graphs, limits, static
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
    assert limits.sentence(made, made.graphs[0]) == (
        "A call computes 200 MFLOP in products and moves at least 976.6 KiB. The limit of this "
        "machine in float32 is 2.00 ms (bound by products, 100 GFLOP/s). openvino takes 2.50 ms: "
        "80% of the limit."
    )


def test_memory_binds() -> None:
    made = report(graph(MEMORY))
    said = limits.sentence(made, made.graphs[0])
    assert (
        "is 2.00 ms (bound by memory, 10 GB/s). openvino takes 2.50 ms: 80% of the limit." in said
    )


def test_calls_bind() -> None:
    small = graph(Work(10, 1000, 300), 2e-3, backend="eager")
    made = report(small, backend="eager")
    said = limits.sentence(made, small)
    assert "is 1.20 ms (bound by calls, 300 calls of 4.00 µs). eager takes 2.00 ms: 60%" in said


def test_an_engine_and_operations_beside_it_are_calls() -> None:
    parts = (Partition("p0", "onnxrt", 9), Partition("p1", "eager", 4))
    made = report(graph(Work(10, 1000, 300), 1e-4, partitions=parts))
    assert "bound by calls, 5 calls of 4.00 µs" in limits.sentence(made, made.graphs[0])


def test_without_a_time_there_is_the_limit_alone() -> None:
    made = report(graph(pairs=()))
    assert limits.sentence(made, made.graphs[0]).endswith("(bound by products, 100 GFLOP/s).")


def test_a_dtype_that_was_not_measured_has_no_limit() -> None:
    made = report(graph(Work(200_000_000, 1_000_000, 50, "float64")))
    assert limits.sentence(made, made.graphs[0]) == (
        "A call computes 200 MFLOP in products and moves at least 976.6 KiB."
    )


def test_every_form_has_the_sentence() -> None:
    made = report(graph(), graph(None, id="g1"))
    for shown in (graphs.text(made), static.text(made), str(static.html(made)), made.to_html()):
        assert shown.replace("\n", " ").count("80% of the limit.") == 1
        assert "%dynamo machine" not in shown


def test_one_hint_where_the_machine_was_not_measured() -> None:
    made = report(graph(None), graph(None, id="g1"), machine=None)
    for shown in (static.text(made).replace("\n", " "), str(static.html(made))):
        assert shown.count("how near to it each graph is.") == 1
    assert limits.hint(report(graph(None, pairs=()), machine=None)) == ""


def test_it_is_saved_and_a_report_of_before_has_none() -> None:
    made = report(graph())
    record = made.to_dict()
    assert Report.from_dict(record) == made
    del record["machine"], record["graphs"][0]["work"], record["graphs"][0]["precision"]
    assert Report.from_dict(record).graphs[0].work is None


def test_what_surpasses_the_limit_says_what_that_can_mean() -> None:
    made = report(graph(taken=0.8e-3))
    said = limits.sentence(made, made.graphs[0])
    assert said.endswith(
        "250% of the limit, which was measured on a busy machine, or the engine computes less than "
        "that."
    )
