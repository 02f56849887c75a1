"""Advice by the machine's limit: the gain that is possible, and never one that is not there."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.advice import advise
from dynamo_ext.analysis.advice_step import Advice
from dynamo_ext.records.autotune import EndToEnd, GraphCandidateResult, GraphRace
from dynamo_ext.records.graph import Partition
from dynamo_ext.records.machine import Work
from dynamo_ext.records.report import Fallback, Report
from tests.analysis.test_graph_limit import MACHINE, MEMORY, PRODUCTS, graph, report

SLOW = dataclasses.replace(MACHINE, products=(("float32", 100.0), ("bf16", 90.0)))
RACE = '%%dynamo -b auto --accuracy "cosine>=0.9999"'


def said(made: Report) -> list[tuple[str, str]]:
    return [(each.topic, f"{each.problem}. {each.step}") for each in advise(made)]


def only(made: Report) -> Advice:
    [found] = advise(made)
    return found


def test_a_graph_at_its_limit_is_not_sent_to_other_backends() -> None:
    found = only(report(graph(taken=10.9), machine=SLOW))
    assert found.topic == "at-limit"
    assert found.problem == (
        "g0 reaches 92% of what this machine can do in float32, bound by products: no other "
        "backend could gain much in float32"
    )
    assert found.step == "Nothing needs to be done."
    assert found.evidence == "a call of it takes 10.9 s, and 10.0 s at that limit"


def test_at_the_limit_a_lower_precision_may_gain() -> None:
    found = only(report(graph(taken=10.9)))
    assert "compare" not in found.step
    assert found.step.startswith("A lower precision could gain: int8 4× and bfloat16 3×. ")
    assert RACE in found.step


def test_bound_by_memory_int8_weights_could_gain() -> None:
    found = only(report(graph(MEMORY, taken=10.5)))
    assert "bound by memory" in found.problem
    assert found.step.startswith(
        "A lower precision could gain: int8 weights 2.5× and bfloat16 2×. "
    )


def test_nearer_than_half_both_gains_are_named_with_their_ends() -> None:
    found = only(report(graph(taken=15.0)))
    assert found.topic == "near-limit"
    assert found.step.startswith("Another backend could gain 1.5× in float32 at most")
    assert "bfloat16 3×" in found.step


def test_far_from_the_limit_advice_is_what_it_was() -> None:
    far, unknown = report(graph(taken=50.0)), report(graph(taken=50.0), machine=None)
    assert said(far) == said(unknown)
    assert [topic for topic, _ in said(far)] == ["all-in-engine"]


def test_precisions_that_have_raced_within_a_bound_are_not_proposed() -> None:
    found = only(report(graph(taken=10.9), end_to_end=EndToEnd("cosine>=0.9999")))
    assert found.step == "Nothing needs to be done."


def test_backends_that_have_raced_are_not_proposed() -> None:
    row = GraphCandidateResult("ts", "won", 15.0, 2.0, 1.9, 2.1)
    found = only(report(graph(pairs=(), contest=GraphRace("ts", (row,)))))
    assert found.topic == "near-limit"
    assert "Another backend" not in found.step


def test_calls_that_bind_eager_are_named() -> None:
    small = graph(Work(10, 1, 300), 0.0, backend="eager", calls=21, run_seconds=4000.0, pairs=())
    found = only(dataclasses.replace(report(small), backend="eager"))
    assert found.topic == "bound-by-calls"
    assert found.problem == "g0 is bound by calls: 300 operations of 500 ms are 75% of its time"
    assert "%%dynamo compare" in found.step


@pytest.mark.parametrize(("taken", "step"), [(10.9, "Nothing needs"), (50.0, "%%dynamo compare")])
def test_operations_that_stay_out_of_an_engine_cost_nothing_at_the_limit(
    taken: float, step: str
) -> None:
    parts = (Partition("p0", "ts", 4), Partition("p1", "eager", 1, reason="no sort"))
    left = Fallback("unsupported", "partition", "g0:p1", "aten.sort", "", "no sort", "")
    broken = Fallback("lower", "partition", "g0:p0", "", "RuntimeError", "no", "")
    made = report(graph(PRODUCTS, taken, partitions=parts), fallbacks=(left, broken), machine=SLOW)
    steps = {each.topic: each.step for each in advise(made)}
    assert steps["unsupported"].startswith(("See", step))
    assert step in steps["unsupported"]
    assert step in steps["lower"]


def test_a_limit_that_is_surpassed_was_measured_too_low_or_less_is_computed() -> None:
    left = Fallback("unsupported", "partition", "g0:p1", "aten.sort", "", "no sort", "")
    parts = (Partition("p0", "ts", 4), Partition("p1", "eager", 1, reason="no sort"))
    made = report(graph(taken=4.0, partitions=parts), fallbacks=(left,))
    [problem] = (each.problem for each in advise(made) if each.topic == "limit-surpassed")
    assert "busy when that was measured, or the engine leaves out" in problem
    steps = {each.topic: each.step for each in advise(made)}
    assert steps["limit-surpassed"].endswith("%dynamo machine measure")
    assert "%%dynamo compare" in steps["unsupported"]
