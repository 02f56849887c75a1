"""Running a frame's original code again, and when that would repeat a change."""

from __future__ import annotations

import operator
from typing import Any

import pytest
import torch
from torch import fx

from dynamo_ext.capture.replay import (
    draws_numbers,
    mutates_inputs,
    run_original,
)


def graph_of(*calls: tuple[str, Any, dict[str, Any]]) -> fx.GraphModule:
    graph = fx.Graph()
    x = graph.placeholder("x")
    for op, target, kwargs in calls:
        graph.create_node(op, target, (x, x), dict.fromkeys(kwargs, x))
    graph.output(x)
    return fx.GraphModule(torch.nn.Module(), graph)


@pytest.mark.parametrize(
    ("call", "changes"),
    [
        (("call_function", torch.add, {}), False),
        (("call_method", "add", {}), False),
        (("call_method", "__add__", {}), False),
        (("call_method", "add_", {}), True),
        (("call_function", operator.iadd, {}), True),
        (("call_function", torch.relu_, {}), True),
        (("call_function", torch.add, {"out": 1}), True),
        (("call_function", torch.nn.functional.relu_, {}), True),
    ],
)
def test_changes_of_inputs_are_seen(call: tuple[str, Any, dict[str, Any]], changes: bool) -> None:
    assert mutates_inputs(graph_of(call)) is changes


def test_setting_an_item_is_a_change() -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    graph.call_function(operator.setitem, (x, 0, 1))
    graph.output(x)
    assert mutates_inputs(fx.GraphModule(torch.nn.Module(), graph))


@pytest.mark.parametrize(
    ("name", "inplace"),
    [("relu", True), ("dropout", True), ("hardswish", True), ("relu", False)],
)
def test_inplace_keywords_are_seen(name: str, inplace: bool) -> None:
    graph = fx.Graph()
    x = graph.placeholder("x")
    y = graph.call_function(getattr(torch.nn.functional, name), (x,), {"inplace": inplace})
    graph.output(y)
    assert mutates_inputs(fx.GraphModule(torch.nn.Module(), graph)) is inplace


def test_original_code_runs_with_any_kind_of_argument() -> None:
    free = 5

    def f(a: int, /, b: int = 2, *rest: int, c: int, d: int = 4, **more: int) -> tuple[Any, ...]:
        return a, b, rest, c, d, more, free

    names = {"a": 1, "b": 7, "rest": (8, 9), "c": 3, "d": 4, "more": {"e": 6}, "free": free}
    assert run_original(f.__code__, names, globals()) == f(1, 7, 8, 9, c=3, d=4, e=6)


def test_original_code_sees_the_namespace() -> None:
    code = compile("global y\ny = x + 1", "<cell>", "exec")
    namespace: dict[str, Any] = {"x": 1}
    run_original(code, {}, namespace)
    assert namespace["y"] == 2


@pytest.mark.parametrize(
    ("call", "draws"),
    [
        (("call_function", torch.add, {}), False),
        (("call_function", torch.rand_like, {}), True),
        (("call_function", torch.nn.functional.dropout, {}), True),
        (("call_method", "normal_", {}), True),
        (("call_function", torch.nn.functional.scaled_dot_product_attention, {}), True),
        (("call_function", torch.nn.functional.embedding, {}), False),
    ],
)
def test_graphs_that_may_draw_numbers_are_known(
    call: tuple[str, Any, dict[str, Any]], draws: bool
) -> None:
    assert draws_numbers(graph_of(call)) is draws
