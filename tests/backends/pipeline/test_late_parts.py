"""What begins to compile when the seconds of a first run are used up waits for new ones."""

from __future__ import annotations

from typing import Any

import torch

from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.timing import first_run
from dynamo_ext.timing.first_run import within
from tests.timing.fake_clock import seconds, stopped

Harness = Any

X = torch.randn(3, 4)


def fn(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).sin() * 2 + 1


def slowly(_: int) -> None:
    stopped.now += 0.3


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
    with torch.no_grad(), within(seconds(2.0)):
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
    assert harness.journal.unfinished
    (told,) = harness.journal.fallbacks.values()
    assert (told.stage, told.scope, told.remedy) == ("lower", "graph", first_run.REMEDY)
