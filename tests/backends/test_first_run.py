"""Nothing further begins once the seconds of a first run are used up; what compiles is finished."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_ext.backends import first_run
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.backends.first_run import FirstRun, within

Harness = Any

SECONDS = 0.2

X = torch.randn(3, 4)


def fn(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).sin() * 2 + 1


class Clock:
    """Goes on only where a test says so."""

    now = 1.0

    def __call__(self) -> float:
        return self.now


CLOCK = Clock()


def slowly(_: int) -> None:
    CLOCK.now += SECONDS * 1.5


def seconds(given: float = SECONDS) -> FirstRun:
    return FirstRun(given, clock=CLOCK)


def test_there_is_no_limit_where_nobody_asks() -> None:
    given = first_run.current()
    with given.working():
        assert not given.used_up()
    assert given.left == float("inf")


def test_only_work_counts_and_work_within_work_once() -> None:
    given = seconds()
    with given.working():
        CLOCK.now += 0.1
        with given.working():
            CLOCK.now += 0.05
    CLOCK.now += 1
    assert given.spent == pytest.approx(0.15)
    assert given.left == pytest.approx(0.05)
    assert not given.used_up()
    with given.working():
        CLOCK.now += 0.06
        assert "0.2 s for the first run" in given.used_up()


def test_eager_has_the_fewest_seconds_and_auto_the_most() -> None:
    usual = [first_run.usual_seconds(each) for each in ("eager:bf16", "onnxrt:int8", "auto")]
    assert usual == sorted(set(usual))


def test_what_compiles_is_finished_and_the_next_part_waits_for_new_seconds(
    harness: Harness, scripted: Any
) -> None:
    scripted.refuses = ("sin",)
    scripted.lower_error = slowly
    given = seconds()
    with torch.no_grad(), within(given):
        run = harness.compile(fn, scripted, {"min_partition": 1})
        torch.testing.assert_close(run(X), fn(X))
    assert len(scripted.lowered) == 1
    # The first part was lowered and not checked: its results were not used either.
    told = next(each for each in harness.journal.fallbacks.values() if each.stage == "lower")
    assert (told.scope, told.remedy) == ("partition", first_run.REMEDY)
    assert "0.2 s for the first run were used up" in told.message
    with torch.no_grad(), within(seconds(10 * SECONDS)):
        torch.testing.assert_close(run(X), fn(X))
    assert len(scripted.lowered) == 2
    assert harness.engines == {"scripted": 3, "eager": 1}


def test_a_graph_that_comes_too_late_is_eagers_and_counted(harness: Harness, scripted: Any) -> None:
    backends = [CallableBackend(lambda graph, _: slowly(0) or graph.forward), scripted]
    compilers = [Compiler(each, {}) for each in backends]

    class Trying(CallableBackend):
        self_verifying = True

    def both(graph: Any, inputs: Any) -> Any:
        return [each(graph, inputs) for each in compilers][-1]

    given = seconds()
    with torch.no_grad(), within(given):
        run = harness.compile(fn, Compiler(Trying(both), {}))
        assert torch.equal(run(X), fn(X))
    assert not scripted.lowered
    assert given.refused == 1
    (told,) = harness.journal.fallbacks.values()
    assert (told.stage, told.scope, told.remedy) == ("lower", "graph", first_run.REMEDY)
