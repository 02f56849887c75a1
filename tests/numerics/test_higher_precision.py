"""Who is right where an engine and eager disagree: the exact result says."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.numerics import higher_precision, verdict

LAYERS, GAIN = 12, 1.5


def deep(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor]:
    """Layers that magnify what rounding leaves."""
    for _ in range(LAYERS):
        x = torch.tanh(x @ weight) * GAIN
    return (x,)


def traced(dtype: torch.dtype) -> tuple[torch.fx.GraphModule, list[torch.Tensor]]:
    torch.manual_seed(0)
    args = [torch.randn(8, 32, dtype=dtype), torch.randn(32, 32, dtype=dtype) / 4]
    return make_fx(deep)(*args), args


def as_good_as_eager(graph: torch.fx.GraphModule, args: Any, found: Any, expected: Any) -> bool:
    exact = partial(higher_precision.exact, graph, args, expected)
    return not verdict.disagreement(found, expected, exact)


def nearer(graph: torch.fx.GraphModule, args: list[torch.Tensor]) -> torch.Tensor:
    """What an engine gives that rounds at the end only."""
    wide = graph(*[a.double() for a in args])[0]
    return wide.to(args[0].dtype)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_an_engine_that_is_nearer_to_the_exact_result_than_eager_is_right(
    dtype: torch.dtype,
) -> None:
    graph, args = traced(dtype)
    expected, found = graph(*args), (nearer(graph, args),)
    if not verdict.disagreement(found, expected):
        pytest.skip("eager is as exact as the engine on this processor")
    assert as_good_as_eager(graph, args, found, expected)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32])
def test_a_wrong_result_stays_wrong(dtype: torch.dtype) -> None:
    graph, args = traced(dtype)
    expected = graph(*args)
    for wrong in (expected[0] * 1.5, expected[0].roll(1), torch.full_like(expected[0], torch.nan)):
        assert verdict.disagreement((wrong,), expected)
        assert not as_good_as_eager(graph, args, (wrong,), expected)


def test_dtypes_that_the_graph_names_are_raised_too() -> None:
    def converts(x: torch.Tensor) -> tuple[torch.Tensor]:
        return (x.to(torch.bfloat16) + torch.full((4,), 1 / 3, dtype=torch.bfloat16),)

    x = torch.linspace(0.66, 0.67, 4).bfloat16()
    found, _ = higher_precision.raised(make_fx(converts)(x), [x])
    assert found.dtype == torch.float32
    assert torch.equal(found, x.float() + 1 / 3)
    captured = torch.fx.symbolic_trace(lambda x: (x.to(torch.bfloat16) / 3,))
    found, _ = higher_precision.raised(captured, [x])
    assert torch.equal(found, x.float() / 3)


def test_integers_must_be_equal() -> None:
    graph = make_fx(lambda x: (x.argmax(1),))(torch.randn(4, 4))
    x = torch.randn(4, 4)
    expected = graph(x)
    assert not as_good_as_eager(graph, [x], (expected[0] + 1,), expected)


def test_another_shape_or_dtype_is_wrong() -> None:
    graph, args = traced(torch.float32)
    expected = graph(*args)
    for wrong in (expected[0][:4], expected[0].double()):
        assert not as_good_as_eager(graph, args, (wrong,), expected)


def test_the_inputs_are_left_alone() -> None:
    graph, args = traced(torch.bfloat16)
    before = [a.clone() for a in args]
    as_good_as_eager(graph, args, (graph(*args)[0] * 2,), graph(*args))
    assert all(torch.equal(a, b) and a.dtype == b.dtype for a, b in zip(args, before, strict=True))


def test_no_exact_result_leaves_it_wrong() -> None:
    def raises(_: torch.Tensor) -> tuple[torch.Tensor]:
        raise NotImplementedError

    graph = make_fx(lambda x: (x + 1,))(torch.randn(4))
    for node in graph.graph.nodes:
        if node.op == "call_function":
            node.target = raises
    x = torch.randn(4)
    assert not as_good_as_eager(graph, [x], (x + 3,), (x + 1,))


def test_where_eager_is_noise_nothing_is_as_good() -> None:
    def chaos(x: torch.Tensor, weight: torch.Tensor) -> tuple[torch.Tensor]:
        for _ in range(40):
            x = torch.tanh(x @ weight) * 3
        return (x,)

    args = traced(torch.bfloat16)[1]
    graph = make_fx(chaos)(*args)
    expected = graph(*args)
    assert not as_good_as_eager(graph, args, (expected[0].roll(1),), expected)
