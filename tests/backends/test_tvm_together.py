"""Which of the tuned schedules stay: those that make the whole partition faster."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.backends import tvm_together
from dynamo_ext.backends.tvm_together import Choice

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

LATER = math.inf


class Program:
    """A partition of two functions of known cost, whatever their schedules are."""

    functions = ("product", "norm")

    def __init__(self, costs: dict[str, float]) -> None:
        self.costs = costs
        self.builds: list[str] = []

    def built(self, schedule: Callable[[Any], Any]) -> dict[str, str]:
        self.builds.append(" ".join(schedule(function) for function in self.functions))
        return {"main": self.builds[-1]}

    def inputs(self) -> list[Any]:
        return []


class Records:
    """What goes on record."""

    def __init__(self) -> None:
        self.settled: dict[str, tuple[str, float]] = {}

    def add(self, function: str, schedule: str, seconds: float, *, settled: bool) -> None:
        assert settled
        self.settled[function] = (schedule, seconds)


PRODUCT = Choice("product", "P", "p", 2.0, 1.0)
NORM = Choice("norm", "N", "n", 0.4, 0.3)


@pytest.fixture(autouse=True)
def names_are_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("key_of", "trace_of"):
        monkeypatch.setattr(tvm_together, name, lambda value: value)


def best(
    monkeypatch: pytest.MonkeyPatch,
    costs: dict[str, float],
    *choices: Choice,
    deadline: float = LATER,
) -> tuple[str, dict[str, tuple[str, float]], list[str]]:
    """The build that stays, what is on record, and all that was built."""
    program, records = Program(costs), Records()

    def faster(challenger: str, holder: str, inputs: list[Any]) -> bool:
        assert inputs == []
        return costs[challenger] < costs[holder]

    monkeypatch.setattr(tvm_together, "faster", faster)
    found = tvm_together.best_build(program, choices, lambda f: f[0].upper(), records, deadline)
    return found["main"], records.settled, program.builds


def test_what_is_slower_together_goes_back_to_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"P N": 3.0, "p n": 3.3, "p N": 3.2, "P n": 3.1}
    stays, settled, _ = best(monkeypatch, costs, PRODUCT, NORM)
    assert stays == "P N"
    assert settled == {"product": ("P", 2.0), "norm": ("N", 0.4)}


def test_what_is_faster_together_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"P N": 3.0, "p n": 2.0, "p N": 2.2, "P n": 2.9}
    stays, settled, _ = best(monkeypatch, costs, PRODUCT, NORM)
    assert stays == "p n"
    assert settled == {"product": ("p", 1.0), "norm": ("n", 0.3)}


@pytest.mark.parametrize("together", [2.5, 3.5])
def test_one_schedule_that_spoils_the_others_is_left_out(
    monkeypatch: pytest.MonkeyPatch, together: float
) -> None:
    costs = {"P N": 3.0, "p n": together, "p N": 2.0, "P n": 4.0}
    stays, settled, _ = best(monkeypatch, costs, PRODUCT, NORM)
    assert stays == "p N"
    assert settled == {"product": ("p", 1.0), "norm": ("N", 0.4)}


def test_after_the_deadline_all_at_once_are_tried_still(monkeypatch: pytest.MonkeyPatch) -> None:
    costs = {"P N": 3.0, "p n": 2.5, "p N": 2.0, "P n": 4.0}
    stays, _, builds = best(monkeypatch, costs, PRODUCT, NORM, deadline=time.monotonic() - 1)
    assert stays == "p n"
    assert builds == ["P N", "p n"]


def test_one_function_is_raced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    stays, settled, builds = best(monkeypatch, {"P N": 3.0, "p N": 3.5}, PRODUCT)
    assert (stays, builds) == ("P N", ["P N", "p N"])
    assert settled == {"product": ("P", 2.0)}


def test_where_a_search_found_the_rule_there_is_nothing_to_race(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    same = Choice("product", "P", "P", 2.0, 2.0)
    assert best(monkeypatch, {}, same) == ("P N", {}, ["P N"])


def readings(monkeypatch: pytest.MonkeyPatch, times: dict[str, Iterator[float]]) -> None:
    """Give each runner its seconds, in the place of the clock."""
    monkeypatch.setattr(tvm_together, "_seconds", lambda run, _inputs, _calls: next(times[run]))


def cycle(*values: float) -> Iterator[float]:
    while True:
        yield from values


def test_the_faster_one_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, {"new": cycle(0.9), "old": cycle(1.0)})
    assert tvm_together.faster("new", "old", [])
    readings(monkeypatch, {"new": cycle(1.0), "old": cycle(0.9)})
    assert not tvm_together.faster("new", "old", [])


def test_what_wins_every_other_round_is_not_faster(monkeypatch: pytest.MonkeyPatch) -> None:
    readings(monkeypatch, {"new": cycle(0.5, 1.1, 0.5, 1.1, 0.5), "old": cycle(1.0)})
    assert not tvm_together.faster("new", "old", [])


def test_the_inputs_are_like_the_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    pytest.importorskip("tvm")
    from dynamo_ext.backends import tvm_convert, tvm_session

    tvm_convert.all_converters()
    state = torch.random.get_rng_state()
    x = torch.randn(4, 3)
    index = torch.tensor([1, 2])
    seen: list[tvm_session.Program] = []

    def build(program: tvm_session.Program) -> Any:
        from dynamo_ext.backends import tvm_schedule

        seen.append(program)
        return program.built(tvm_schedule.schedule)

    from torch.fx.experimental.proxy_tensor import make_fx

    graph = make_fx(lambda x, i: (torch.index_select(x, 0, i) * 2,), tracing_mode="fake")(x, index)
    torch.random.set_rng_state(state)
    session = tvm_session.Session(graph, build)
    made = seen[0].inputs()
    assert [(t.shape, t.dtype) for t in made] == [(x.shape, x.dtype), (index.shape, index.dtype)]
    assert made[0].std() > 0
    assert not made[1].any()
    assert torch.equal(torch.random.get_rng_state(), state)
    assert torch.equal(session.run(x, index)[0], x[index] * 2)
    # A module is scheduled as a copy, so that it can be built again.
    twice = build(seen[0])
    assert twice is not None
