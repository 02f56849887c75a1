"""Which input shapes get an engine, where an engine knows one shape alone."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import GraphModule

from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall
from dynamo_ext.backends.pipeline.calls.shape_limit import (
    AT_ONCE,
    MOST_SHAPES,
    ShapeLimit,
    refusals,
)


def built(lengths: list[int]) -> list[int]:
    """The lengths that get an engine, in their order."""
    limit, found = ShapeLimit(), list[int]()
    for each in lengths:
        if each not in found and not limit.refusal((each,), len(found)):
            found.append(each)
    return found


@pytest.mark.parametrize(
    ("lengths", "expected"),
    [
        ([*range(1, 100)] * 2, [1, 2]),
        ([5, 5, 5, 3], [5, 3]),
        ([32, 7, 32, 9, 9], [32, 7, 9]),
        ([1, 4, 7] * 2, [1, 4, 7]),
        ([1, 4, 7, 9] * 2, [1, 4]),
    ],
    ids=["a length that grows", "a last batch", "twice in a row", "three sizes", "too early"],
)
def test_which_shapes_get_one(lengths: list[int], expected: list[int]) -> None:
    assert built(lengths) == expected


def test_there_are_most_of_them() -> None:
    lengths = [each for number in range(50) for each in (number, number)]
    assert len(built(lengths)) == MOST_SHAPES
    assert AT_ONCE < MOST_SHAPES
    assert "limit" in ShapeLimit().refusal((1,), MOST_SHAPES)
    assert "twice" in ShapeLimit().refusal((1,), AT_ONCE)


@pytest.mark.parametrize(
    ("dynamic", "served", "refused"),
    [(True, [3, 4], 3), (False, [3, 4, 5, 6, 7], 0)],
    ids=["symbolic sizes", "fixed sizes"],
)
def test_other_sizes_run_the_captured_graph(
    *, dynamic: bool, served: list[int], refused: int
) -> None:
    journal, ran = Journal(), list[int]()

    def backend(graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        def run(*args: Any) -> Any:
            ran.append(args[-1].shape[0])
            return graph.forward(*args)

        call = GraphCall(graph, run, journal)
        call.refusals = refusals(inputs, journal)
        return call

    compiled = torch.compile(lambda x: x.sin() * x.shape[0], backend=backend, dynamic=dynamic)
    for size in range(3, 8):
        x = torch.randn(size)
        torch.testing.assert_close(compiled(x), x.sin() * size)
    assert ran == served
    assert sum(each.count for each in journal.fallbacks.values()) == refused
