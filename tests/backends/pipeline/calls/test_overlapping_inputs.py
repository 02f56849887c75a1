"""Inputs that share memory with one that the graph changes: eager's results, and a word why."""

from __future__ import annotations

import pytest
import torch

import dynamo_ext
from benchmarks.backends import BACKENDS
from dynamo_ext.backends.pipeline.calls.overlapping_inputs import MESSAGE
from tests.needs import needs_backend


def step(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y.mul_(2)
    return (x.sin() * 3 + 1).tanh(), x.sum(), y[1:]


def pair(kind: str, size: int) -> tuple[torch.Tensor, torch.Tensor]:
    memory = torch.arange(float(2 * size + 2)).div(7)
    second = {"apart": memory[size + 1 : 2 * size + 1], "shifted": memory[1 : size + 1]}
    return memory[:size], second.get(kind, torch.arange(float(size)))


ORDERS = (("own", "shifted", "own"), ("shifted", "own", "shifted"), ("apart", "shifted", "apart"))


@pytest.mark.parametrize("order", ORDERS, ids=" ".join)
@pytest.mark.parametrize("engine", [name for name in BACKENDS if name != "eager"])
def test_inputs_that_come_to_overlap(engine: str, order: tuple[str, ...]) -> None:
    needs_backend(engine)
    fast = dynamo_ext.optimize(engine)(step)
    for size in (6, 9):
        for kind in order:
            plain, mine = pair(kind, size), pair(kind, size)
            torch.testing.assert_close(fast(*mine), step(*plain))
            torch.testing.assert_close(mine, plain)
    assert MESSAGE in {fallback.message for fallback in fast.report().fallbacks}


def test_inputs_in_one_memory_that_do_not_overlap_stay_in_the_engine() -> None:
    fast = dynamo_ext.optimize("aot_eager")(step)
    for size in (6, 6, 9):
        plain, mine = pair("apart", size), pair("apart", size)
        torch.testing.assert_close(fast(*mine), step(*plain))
    assert not fast.report().fallbacks


@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt", "openvino", "inductor"])
@pytest.mark.parametrize("strides", [(2, 0), (0, 1), (1, 1)], ids=str)
def test_an_input_whose_own_elements_share_memory_is_eagers(backend, strides):
    def change(x):
        y = x * 2
        x.diagonal().add_(1)
        return y @ y.mT

    def given():
        return torch.arange(4.0).as_strided((2, 2), strides)

    fast = dynamo_ext.optimize(backend)(change)
    mine, theirs = given(), given()
    torch.testing.assert_close(fast(mine), change(theirs))
    torch.testing.assert_close(mine, theirs)
    assert MESSAGE in {fallback.message for fallback in fast.report().fallbacks}


@pytest.mark.parametrize(
    ("shape", "strides"), [((2, 3), (3, 1)), ((2, 3), (1, 2)), ((1, 3), (0, 2)), ((0, 3), (0, 0))]
)
def test_what_does_not_overlap_itself_stays_in_the_engine(shape, strides):
    def change(x):
        x.add_(1)
        return x * 2 + 1

    fast = dynamo_ext.optimize("aot_eager")(change)
    fast(torch.zeros(8).as_strided(shape, strides))
    assert not fast.report().fallbacks


@pytest.mark.parametrize("backend", ["aot_eager", "onnxrt"])
def test_an_input_that_comes_to_overlap_itself(backend: str) -> None:
    def change(x):
        x.diagonal().add_(1)
        return x.sum()

    fast = dynamo_ext.optimize(backend)(change)
    for size in (2, 3, 4, 3):
        mine, theirs = (torch.arange(8.0).as_strided((2, size), (3, 1)) for _ in range(2))
        torch.testing.assert_close(fast(mine), change(theirs))
        torch.testing.assert_close(mine, theirs)
