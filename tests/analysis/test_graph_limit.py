"""How near graphs are to the machine's limit, by hand: 100 operations and 10 bytes a second."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.graph_limit import call_seconds, calls_of, ran_in
from dynamo_ext.analysis.machine_limit import limit
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.records.report import Report

MACHINE = MachineLimits(
    "Some CPU", 2, "2", (("float32", 100.0), ("bf16", 300.0)), ((10, 10.0),), 0.5
)
PRODUCTS = Work(1000, 10, 4, weights=8)
LINEAR = Operation("call_function", "linear", "linear", "", "")


def graph(work: Work | None = PRODUCTS, taken: float = 12.5, **facts: object) -> Graph:
    made = Graph("g0", "0/0", "ts", (LINEAR,), "", 0.0, True, 3, 30.0, device="cpu", work=work)
    return dataclasses.replace(made, **({"pairs": ((taken, 2 * taken),) * 3} | facts))


def report(*graphs: Graph, machine: MachineLimits | None = MACHINE, **facts: object) -> Report:
    return Report(
        "optimize", "ts", "Cell", None, 60.0, 1.0, graphs=graphs, machine=machine, **facts
    )


def share(made: Graph) -> float | None:
    least = limit(made.work, MACHINE, ran_in(report(), made), calls_of(report(), made))
    taken = call_seconds(report(), made)
    return least.seconds / taken if least and taken else None


def test_the_share_is_the_limits_of_the_calls() -> None:
    assert share(graph()) == 0.8
    assert share(graph(taken=50.0)) == 0.2
    assert share(graph(Work(1500, 10, 4, "bf16"), taken=6.25)) == 0.8
    assert share(graph(Work(1500, 10, 4, "float64"))) is None


def test_calls_are_those_that_eager_makes_one_by_one_or_those_of_engines() -> None:
    small = Work(10, 1, 20)
    parts = (Partition("p0", "ts", 3), Partition("p1", "eager", 4), Partition("p2", "ts", 9))
    made = [graph(small, backend="eager"), graph(small), graph(small, partitions=parts)]
    assert [calls_of(report(), each) for each in made] == [20, 1, 6]
    assert [share(each) for each in made] == [0.8, 0.04, 0.24]


def test_the_precision_that_it_ran_in_has_its_own_limit() -> None:
    lowered = graph(backend="openvino:bf16", precision="bf16", taken=4.0)
    assert share(lowered) == pytest.approx(1000 / 300 / 4)
    assert ran_in(report(), lowered) == "bf16"
    assert ran_in(report(), dataclasses.replace(lowered, lowered=0)) == "float32"


def test_calls_whose_sizes_vary_are_not_held_to_the_work_of_one_size() -> None:
    vary = (dataclasses.replace(LINEAR, shape=("s0", "8")),)
    assert share(graph(operations=vary)) is None
    assert share(graph(operations=vary, pairs=(), calls=21)) is None
    row = GraphCandidateResult("ts", "won", 12.5, 2.0, 1.9, 2.1)
    assert share(graph(operations=vary, pairs=(), contest=GraphRace("ts", (row,)))) == 0.8


def test_what_is_not_known_has_none() -> None:
    assert share(graph(pairs=())) is None
    assert share(graph(Work(0, 0, 3))) is None


def test_eagers_time_is_a_races_or_that_of_its_operations() -> None:
    row = GraphCandidateResult("ts", "slower", 8.0, 0.5, 0.4, 0.6)
    raced = graph(pairs=(), contest=GraphRace("eager", (row,)))
    assert call_seconds(report(), raced) == 4.0
    operation = Operation("call_function", "a", "f", "", "", seconds=2.0)
    timed = graph(pairs=(), backend="eager", operations=(operation,))
    assert call_seconds(report(), timed) == 2.0
    assert call_seconds(report(), dataclasses.replace(timed, backend="ts")) is None


def test_many_later_calls_stand_for_one() -> None:
    called = graph(pairs=(), calls=11, run_seconds=30.0, first_call_seconds=10.0)
    assert call_seconds(report(), called) == 2.0
    assert call_seconds(report(), dataclasses.replace(called, calls=10)) is None
    assert call_seconds(report(), dataclasses.replace(called, device="cuda:0")) is None
