"""How near graphs are to the machine's limit, by hand: 100 operations and 10 bytes a second."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis import machine_limit
from dynamo_ext.analysis.graph_limit import call_seconds, largest, reached
from dynamo_ext.analysis.machine_limit import Limit
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.graph import Graph, Operation, Partition
from dynamo_ext.records.machine import MachineLimits, Work
from dynamo_ext.records.report import Report

MACHINE = MachineLimits(
    "Some CPU", 2, "2", (("float32", 100.0), ("bf16", 300.0), ("int8", 400.0)), ((10, 10.0),), 0.5
)
PRODUCTS = Work(1000, 10, 4, weights=8)
LINEAR = Operation("call_function", "linear", "linear", "", "")
MEMORY = Work(10, 100, 4, weights=80)


def graph(work: Work | None = PRODUCTS, taken: float = 12.5, **facts: object) -> Graph:
    made = Graph("g0", "0/0", "ts", (LINEAR,), "", 0.0, True, 3, 30.0, device="cpu", work=work)
    return dataclasses.replace(made, **({"pairs": ((taken, 2 * taken),) * 3} | facts))


def report(*graphs: Graph, machine: MachineLimits | None = MACHINE, **facts: object) -> Report:
    return Report(
        "optimize", "ts", "Cell", None, 60.0, 1.0, graphs=graphs, machine=machine, **facts
    )


def test_products_bind() -> None:
    found = reached(report(), graph())
    assert found is not None
    assert (found.share, found.least, found.room) == (0.8, Limit(10.0, "products"), 1.25)
    assert found.gains == [("int8", 4.0), ("bf16", 3.0)]


def test_memory_binds_and_int8_narrows_weights_alone() -> None:
    found = reached(report(), graph(MEMORY))
    assert found is not None
    assert (found.share, found.least) == (0.8, Limit(10.0, "memory"))
    assert found.gains == [("int8", 2.5), ("bf16", 2.0)]


def test_calls_bind_what_eager_runs_one_by_one() -> None:
    small = Work(10, 1, 20)
    found = reached(report(), graph(small, backend="eager"))
    assert found is not None
    assert (found.least, found.room) == (Limit(10.0, "calls"), 25.0)
    joined = reached(report(), graph(small))
    assert joined is not None
    assert joined.least == Limit(0.5, "calls")
    parts = (Partition("p0", "ts", 3), Partition("p1", "eager", 4), Partition("p2", "ts", 9))
    split = reached(report(), graph(small, partitions=parts))
    assert split is not None
    assert split.calls == 6


def test_the_precision_that_it_ran_in_has_its_own_limit() -> None:
    lowered = graph(backend="openvino:bf16", precision="bf16", taken=4.0)
    found = reached(report(), lowered)
    assert found is not None
    assert found.share == pytest.approx(1000 / 300 / 4)
    assert [name for name, _ in found.gains] == ["int8"]
    not_lowered = reached(report(), dataclasses.replace(lowered, lowered=0))
    assert not_lowered is not None
    assert not_lowered.precision == "float32"


def test_a_model_in_bfloat16_has_bfloat16s_limit() -> None:
    found = reached(report(), graph(Work(1500, 10, 4, "bf16"), taken=6.25))
    assert found is not None
    assert (found.share, found.least.seconds) == (0.8, 5.0)
    assert reached(report(), graph(Work(1500, 10, 4, "float64"))) is None


def test_a_precision_that_multiplies_no_faster_gains_nothing() -> None:
    slow = dataclasses.replace(MACHINE, products=(("float32", 100.0), ("bf16", 100.0)))
    found = reached(report(machine=slow), graph(MEMORY))
    assert found is not None
    assert found.gains == []


def test_far_from_the_limit_no_precision_is_promised() -> None:
    found = reached(report(), graph(taken=50.0))
    assert found is not None
    assert found.share < machine_limit.NEAR
    assert found.gains == []


def test_weights_that_are_not_constants_are_not_rounded_to_int8() -> None:
    found = reached(report(), graph(MEMORY, differentiable=True))
    assert found is not None
    assert [name for name, _ in found.gains] == ["bf16"]


def test_calls_whose_sizes_vary_are_not_held_to_the_work_of_one_size() -> None:
    vary = (dataclasses.replace(LINEAR, shape=("s0", "8")),)
    assert reached(report(), graph(operations=vary)) is None
    assert reached(report(), graph(operations=vary, pairs=(), calls=21)) is None
    row = GraphCandidateResult("ts", "won", 12.5, 2.0, 1.9, 2.1)
    raced = graph(operations=vary, pairs=(), contest=GraphRace("ts", (row,)))
    assert reached(report(), raced) is not None


def test_what_is_not_known_has_none() -> None:
    assert reached(report(machine=None), graph()) is None
    assert reached(report(), graph(None)) is None
    assert reached(report(), graph(pairs=())) is None
    assert reached(report(), graph(Work(0, 0, 3))) is None


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


def test_the_graph_with_the_most_time_speaks() -> None:
    other = dataclasses.replace(graph(), id="g1", run_seconds=31.0)
    found = largest(report(graph(), other))
    assert found is not None
    assert found.graph.id == "g1"
    assert largest(report(graph(), dataclasses.replace(other, work=None))) is None
    assert largest(report()) is None
