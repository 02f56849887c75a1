"""Nothing further of a graph is compiled once its seconds are used up; what compiles is finished."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.backends.engines.callable.backend import CallableBackend
from dynamo_ext.backends.pipeline import compile_timeout

Harness = Any

SECONDS = 0.2

X = torch.randn(3, 4)


def fn(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).sin() * 2 + 1


def parts(harness: Harness) -> dict[str, str]:
    return {name: part.reason for name, part in harness.journal.partitions.items()}


class Clock:
    """Goes on only where a test says so."""

    now = 1.0

    def perf_counter(self) -> float:
        return self.now


CLOCK = Clock()


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compile_timeout, "time", CLOCK)


def slowly(_: int) -> None:
    CLOCK.now += SECONDS * 1.5


def test_nothing_is_counted_where_nobody_asks() -> None:
    with compile_timeout.one_graph():
        assert not compile_timeout.used_up()
    with compile_timeout.allowing(0):
        assert not compile_timeout.used_up()


def test_what_is_within_another_goes_on_counting() -> None:
    with compile_timeout.allowing(0.05), compile_timeout.one_graph():
        CLOCK.now += 0.06
        with compile_timeout.one_graph():
            assert "0.05 s" in compile_timeout.used_up()
    with compile_timeout.allowing(0.05), compile_timeout.one_graph():
        assert not compile_timeout.used_up()


def test_what_compiles_is_finished_and_the_next_part_runs_eagerly(
    harness: Harness, scripted: Any
) -> None:
    scripted.refuses = ("sin",)
    scripted.lower_error = slowly
    with torch.no_grad(), compile_timeout.allowing(SECONDS):
        run = harness.compile(fn, scripted, {"min_partition": 1})
        torch.testing.assert_close(run(X), fn(X))
    assert len(scripted.lowered) == 1
    assert harness.engines == {"scripted": 1, "eager": 3}
    told = next(each for each in harness.journal.fallbacks.values() if each.stage == "lower")
    assert (told.scope, told.remedy) == ("partition", compile_timeout.REMEDY)
    assert "0.2 s for compiling the graph were used up" in told.message
    torch.testing.assert_close(run(X), fn(X))


def test_each_graph_has_its_own_seconds(harness: Harness, scripted: Any) -> None:
    scripted.lower_error = slowly
    with torch.no_grad(), compile_timeout.allowing(SECONDS):
        for function in (fn, torch.nn.Softmax(0).forward):
            harness.compile(function, scripted)(X)
    assert len(scripted.lowered) == 2
    assert not harness.journal.fallbacks


def test_graphs_of_one_compiled_in_turn_share_them(harness: Harness, scripted: Any) -> None:
    backends = [CallableBackend(lambda graph, _: slowly(0) or graph.forward), scripted]
    compilers = [Compiler(each, {}) for each in backends]

    def both(graph: Any, inputs: Any) -> Any:
        with compile_timeout.allowing(SECONDS), compile_timeout.one_graph():
            return [each(graph, inputs) for each in compilers][-1]

    with torch.no_grad():
        run = harness.compile(fn, both_as_backend(both))
        assert torch.equal(run(X), fn(X))
    assert not scripted.lowered
    (told,) = harness.journal.fallbacks.values()
    assert (told.stage, told.scope, told.remedy) == ("lower", "graph", compile_timeout.REMEDY)


def both_as_backend(lower: Any) -> Compiler:
    class Trying(CallableBackend):
        self_verifying = True

    return Compiler(Trying(lower), {})
