"""Views of inputs that a graph returns: of each call's inputs, at each call's offset and strides."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import torch

import dynamo_ext
from benchmarks.backends import BACKENDS
from dynamo_ext.backends.pipeline.input_views import apart
from tests.capture.captured import captured
from tests.crosses import crossed
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import GraphModule

Tensors = tuple[torch.Tensor, ...]


def at(shape: Sequence[int], offset: int = 0, step: int = 1) -> torch.Tensor:
    """A tensor that lies somewhere in a larger memory."""
    strides: list[int] = []
    size = step
    for each in reversed(shape):
        strides.insert(0, size)
        size *= each
    return torch.arange(float(offset + size + 5)).as_strided(tuple(shape), tuple(strides), offset)


def written_through_a_view(x: torch.Tensor) -> Tensors:
    y = x.transpose(0, -1)
    z = y.view(y.shape)
    z[..., 0] = -3
    return (z,)


def changed(x: torch.Tensor) -> Tensors:
    x.mul_(2)
    return x.transpose(0, -1), x[1:], x * 2


def changed_and_given_back(x: torch.Tensor) -> Tensors:
    y = x.add_(1)
    return y, y.detach(), y.unbind(-1)[1], y.sum(0)


def of_a_result(x: torch.Tensor) -> Tensors:
    y = x * 2 + 1
    z = y.transpose(0, -1)
    z[0] = 5
    return z, y[..., 1:], y.unfold(0, 2, 1)


FUNCTIONS = (written_through_a_view, changed, changed_and_given_back, of_a_result)
CALLS = (
    ((2, 2, 3), 0, 1),
    ((3, 2, 2, 3), 0, 1),
    ((3, 2, 5, 3), 3, 1),
    ((4, 2, 5, 6), 0, 2),
    ((3, 2, 4, 3), 7, 1),
)


def where(results: Tensors, given: torch.Tensor) -> list[object]:
    """Which memory each result is in, and how it lies there if it is the input's."""
    owners = [each.untyped_storage().data_ptr() for each in (given, *results)]
    return [
        (owners.index(owner), (each.stride(), each.storage_offset()) * (owner == owners[0]))
        for each, owner in zip(results, owners[1:], strict=True)
    ]


@pytest.mark.parametrize(
    ("engine", "function"),
    crossed([name for name in BACKENDS if name != "eager"], FUNCTIONS),
    ids=lambda given: getattr(given, "__name__", given),
)
def test_a_view_is_of_this_call_s_input(engine: str, function: Callable[..., Tensors]) -> None:
    needs_backend(engine)
    fast = dynamo_ext.optimize(engine)(function)
    for call in CALLS:
        x, y = at(*call), at(*call)
        expected, found = function(x), fast(y)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(y, x)
        assert where(found, y) == where(expected, x)


def test_gradients_go_through_a_view_as_in_eager() -> None:
    def both(x: torch.Tensor) -> Tensors:
        y = x * 2
        with torch.no_grad():
            still = x[0]
        y[1:].mul_(3)
        return y.t(), still, (y * x).sum()

    fast = dynamo_ext.optimize("aot_eager")(both)
    for rows in (3, 4, 5):
        grads = []
        for run in (both, fast):
            x = torch.arange(float(rows * 2)).reshape(rows, 2).requires_grad_()
            view, still, total = run(x)
            assert not still.requires_grad
            assert still.data_ptr() == x.data_ptr()
            (view.sum() * 5 + total).backward()
            grads.append(x.grad)
        torch.testing.assert_close(grads[1], grads[0])


def divided(graph: GraphModule) -> tuple[Callable[..., object], list[GraphModule]]:
    """What is called in a graph's place, and what of the graph the compiler gets."""
    given: list[GraphModule] = []

    def compile_rest(rest: GraphModule) -> Callable[..., object]:
        given.append(rest)
        return rest.forward

    return apart(graph, compile_rest), given


def test_the_compiler_gets_no_view_of_an_input() -> None:
    call, (rest,) = divided(captured(changed, at((2, 2, 3)))[0])
    names = [str(node.target) for node in rest.graph.nodes if node.op.startswith("call_")]
    assert len(names) == 2, names
    x = at((2, 2, 3), 3)
    torch.testing.assert_close(tuple(call(x.clone())), changed(x.clone()))


def test_a_graph_without_such_views_is_compiled_as_it_is() -> None:
    graph, _ = captured(lambda x: ((x * 2).t(), x.sum()), torch.ones(2, 3))
    assert divided(graph)[1] == [graph]


def test_a_graph_of_views_alone_is_not_compiled() -> None:
    graph, _ = captured(lambda x: (x.t(), x[0].view(-1)), torch.ones(2, 3))

    def never(rest: GraphModule) -> Callable[..., object]:
        pytest.fail(rest.code)

    assert apart(graph, never) == graph.forward


def test_what_changes_a_tensor_s_geometry_is_left_to_the_compiler() -> None:
    def turned(x: torch.Tensor) -> Tensors:
        y = (x * 2).t_()
        return y, y[0]

    graph, _ = captured(turned, torch.ones(2, 3))
    assert divided(graph)[1] == [graph]
