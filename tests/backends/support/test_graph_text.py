"""Normalised graphs as text: what is read back computes the same, and what cannot be written."""

from __future__ import annotations

import json

import pytest
import torch
from torch import nn
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.support import graph_text
from dynamo_ext.torch_private import dispatch, fx_nodes


def traced(function, *inputs, mode="fake"):
    return make_fx(function, tracing_mode=mode)(*inputs)


def again(graph):
    return graph_text.read(graph_text.written(graph, {}), {})


def pooled(x):
    values, places = torch.ops.aten.max_pool2d_with_indices(x, [2, 2], [2, 2])
    return values, places.to(torch.float64), x.new_full((2,), -torch.inf)


def shaped(x):
    table = torch.tensor([3, 1, 2])
    picked = x.index_select(1, table[:2]).to(memory_format=torch.channels_last)
    return picked.expand(2, 2, 4, 4), torch.arange(3, dtype=torch.int16, device="cpu"), x.mean()


@pytest.mark.parametrize("function", [pooled, shaped])
def test_what_is_read_computes_the_same(function):
    x = torch.randn(2, 4, 4, 4)
    graph = traced(function, x)
    made = again(graph)
    assert made.code == graph.code
    for got, expected in zip(made(x), graph(x), strict=True):
        assert (got.dtype, got.stride()) == (expected.dtype, expected.stride())
        torch.testing.assert_close(got, expected, rtol=0, atol=0)


def test_values_are_as_they_were():
    x = torch.randn(2, 4, 4, 4)
    graph = traced(pooled, x)
    for before, after in zip(graph.graph.nodes, again(graph).graph.nodes, strict=True):
        one, two = before.meta.get("val"), after.meta.get("val")
        assert type(one) is type(two) or {type(one), type(two)} == {list, tuple}
        if isinstance(one, torch.Tensor):
            assert dispatch.is_fake(two)
            facts = [(v.shape, v.stride(), v.dtype, v.device) for v in (one, two)]
            assert facts[0] == facts[1]


@pytest.mark.parametrize(
    "constant",
    [
        torch.tensor([[1.5, -0.0], [torch.nan, torch.inf]]).t(),
        torch.tensor([True, False]),
        torch.tensor([1 + 2j]),
        torch.tensor(3, dtype=torch.bfloat16),
        torch.empty(0, 3),
    ],
)
def test_constants_are_kept_to_the_bit(constant):
    class Holds(nn.Module):
        def __init__(self):
            super().__init__()
            self.constant = constant

        def forward(self, x):
            return torch.ops.aten.mul.Tensor(x, self.constant)

    made = again(torch.fx.symbolic_trace(Holds()))
    assert (made.constant.dtype, made.constant.stride()) == (constant.dtype, constant.stride())
    torch.testing.assert_close(made.constant, constant, rtol=0, atol=0, equal_nan=True)


def test_names_of_captured_operations_are_those_of_the_graph_at_hand():
    graph = traced(lambda x: x.sin().cos(), torch.ones(2))
    sine, cosine = [n for n in graph.graph.nodes if n.op == "call_function"]
    fx_nodes.give_captured_name(sine, "first")
    text = graph_text.written(graph, {"first": 4})
    names = {
        n.name: fx_nodes.captured_name(n) for n in graph_text.read(text, {4: "one"}).graph.nodes
    }
    assert (names[sine.name], names[cosine.name]) == ("one", "")


@torch.library.custom_op("dx_text::twice", mutates_args=())
def twice(x: torch.Tensor) -> torch.Tensor:
    return x * 2


@twice.register_fake
def _(x):
    return torch.empty_like(x)


LARGE = torch.ones(graph_text.LARGEST // 4 + 1)


@pytest.mark.parametrize(
    ("function", "mode"),
    [
        (twice, "fake"),
        (lambda x: x + LARGE[: len(x)].sum() + LARGE.sum(), "real"),
        (torch.sin, "symbolic"),
    ],
    ids=["custom operator", "large constant", "symbols"],
)
def test_what_cannot_be_written_is_refused(function, mode):
    with pytest.raises(ValueError):  # noqa: PT011 - the value itself is all that it says
        graph_text.written(traced(function, torch.ones(3), mode=mode), {})


def test_no_operator_of_another_library_is_read():
    line = {"name": "a", "op": "call_function", "target": "dx_text.twice.default"}
    text = json.dumps({**line, "args": [], "kwargs": {}, "captured": None})
    with pytest.raises(ValueError, match="dx_text"):
        graph_text.read(text, {})
