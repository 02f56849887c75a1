"""Results that are views of inputs or of each other: eager's own views, whatever the engine."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

import dynamo_ext
from benchmarks.backends import ENGINES
from dynamo_ext.backends.pipeline.returned_views import is_returned_view, separate_returned_views
from tests.crosses import crossed
from tests.needs import needs_backend

if TYPE_CHECKING:
    from collections.abc import Callable

Tensors = tuple[torch.Tensor, ...]


X = torch.ones(3, 3)


def sliced(x: torch.Tensor, i: int) -> Tensors:
    part = x[i : i + 16]
    return part, part * 2


def column(x: torch.Tensor, i: int) -> Tensors:
    part = x[i : i + 16, 0]
    return part, (part * 2).sum(), part.unsqueeze(1)


def of_a_result(x: torch.Tensor, i: int) -> Tensors:
    y = x * 2 + 1
    return y, y[i : i + 4], y[i : i + 4].t(), (y[i : i + 4] + 1) * 3


def split(x: torch.Tensor, i: int) -> Tensors:
    first, second = x[i : i + 16].split(8)
    return first, second * 2, second


def mutated(x: torch.Tensor, i: int) -> Tensors:
    x[i : i + 4] = 0
    return x[i : i + 2], x * 2


def chunks(x: torch.Tensor, i: int) -> Tensors:
    first, second, third = (x * 2 + i).chunk(3, 1)
    return first, second, third


def reinterpreted(x: torch.Tensor, i: int) -> Tensors:
    part = x.view(-1)[i:]
    return part.view(torch.int32), part * 3 + 1


def repeated(x: torch.Tensor, i: int) -> Tensors:
    return ((x * 2 + i).tril().expand(2, -1, -1).movedim(0, -1),)


def windows(x: torch.Tensor, i: int) -> Tensors:
    y = x * 2 + i
    return y.unfold(1, 3, 1), y.abs()


def repeated_and_used(x: torch.Tensor, i: int) -> Tensors:
    row = (x * 2 + i).sum(1, keepdim=True).expand(-1, 4)
    return row, (row * 3 + 1).sin()


FUNCTIONS = (sliced, column, of_a_result, split, mutated, chunks, reinterpreted)
OVERLAPPING = (repeated, windows, repeated_and_used)


def shared(results: Tensors, given: torch.Tensor) -> list[int]:
    """For each result, which of the input and the results its memory is, first come."""
    owners = [t.untyped_storage().data_ptr() for t in (given, *results)]
    return [owners.index(owner) for owner in owners]


@pytest.mark.parametrize(
    ("engine", "function"),
    crossed(ENGINES, [*FUNCTIONS, *OVERLAPPING]),
    ids=lambda given: getattr(given, "__name__", given),
)
def test_views_are_where_eager_has_them(engine: str, function: Callable[..., Tensors]) -> None:
    needs_backend(engine)
    fast = dynamo_ext.optimize(engine)(function)
    for i in (0, 16, 32, 5):
        x = torch.arange(64.0 * 6).reshape(64, 6)
        y = x.clone()
        expected, found = function(x, i), fast(y, i)
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(y, x)
        assert [(t.stride(), t.storage_offset(), t.dtype) for t in found] == [
            (t.stride(), t.storage_offset(), t.dtype) for t in expected
        ]
        assert shared(found, y) == shared(expected, x)


@pytest.mark.parametrize("learns", [False, True], ids=["no_grad", "grad"])
@pytest.mark.parametrize("function", OVERLAPPING, ids=lambda f: f.__name__)
def test_writing_to_one_element_writes_to_all_in_its_memory(
    harness: Any, scripted: Any, function: Callable[..., Tensors], learns: Any
) -> None:
    def written(run: Callable[..., Tensors], count: int) -> Tensors:
        x = torch.arange(6.0 * count).reshape(count, 6).requires_grad_(learns)
        results = tuple(each.detach() for each in run(x, count // 2))
        results[0][0, 0, ...].zero_()
        return results

    compiled = harness.compile(function, scripted)
    # The second size makes sizes symbolic.
    for count in (4, 6, 8):
        torch.testing.assert_close(written(compiled, count), written(function, count))
    assert harness.engines["scripted"]


def test_training_gets_the_same_gradients_through_views() -> None:
    pytest.importorskip("onnxruntime")

    def part(x: torch.Tensor, w: torch.Tensor, i: int) -> Tensors:
        return x[i : i + 2], (x[i : i + 2] @ w).tanh()

    fast = dynamo_ext.optimize("onnxrt")(part)
    for i in (0, 3, 5):
        grads = []
        for run in (part, fast):
            x = torch.arange(24.0).reshape(8, 3).div(9).requires_grad_()
            w = torch.eye(3).requires_grad_()
            view, out = run(x, w, i)
            (view.sum() * 2 + out.sum()).backward()
            grads.append((x.grad, w.grad))
        torch.testing.assert_close(grads[1], grads[0])


def names(graph: torch.fx.GraphModule) -> list[tuple[str, bool]]:
    return [
        (node.name, is_returned_view(node))
        for node in graph.graph.nodes
        if node.op == "call_function"
    ]


def test_a_view_has_operations_of_its_own_and_is_used_as_before() -> None:
    graph = make_fx(lambda x: (x[1], x[1] * 2))(torch.ones(3, 2))
    before = len(names(graph))
    assert separate_returned_views(graph) == 1
    marks = [marked for _, marked in names(graph)]
    assert any(marks)
    assert not all(marks)
    assert len(marks) >= before
    x = torch.arange(6.0).reshape(3, 2)
    view, double = graph(x)
    assert view.data_ptr() == x[1].data_ptr()
    torch.testing.assert_close(double, x[1] * 2)


def test_a_view_of_what_nobody_gets_is_left_to_the_engine() -> None:
    graph = make_fx(lambda x: ((x * 2).t(),))(torch.ones(3, 2))
    assert separate_returned_views(graph) == 0
    assert not any(marked for _, marked in names(graph))


def test_only_what_shares_memory_is_taken_from_the_engine() -> None:
    graph = make_fx(lambda x: ((x * 2).t()[1:].expand(4, 2, 3).unsqueeze(0),))(X)
    assert separate_returned_views(graph) == 1
    assert [marked for _, marked in names(graph)] == [False, False, False, True, True]
    graph = make_fx(lambda x: ((x * 2).expand(1, 3, 3), (x + 1).expand(2, 3, 3) + 1))(X)
    assert separate_returned_views(graph) == 0


def test_a_graph_that_returns_its_input_is_left_alone() -> None:
    graph = make_fx(lambda x: (x, x + 1))(torch.ones(3))
    code = graph.code
    assert separate_returned_views(graph) == 0
    assert graph.code == code
