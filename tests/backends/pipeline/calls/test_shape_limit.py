"""Which input shapes get an engine, where an engine knows one shape alone."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch.fx import GraphModule
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from dynamo_ext.backends.journal import Journal
from dynamo_ext.backends.pipeline.calls.graph_call import GraphCall
from dynamo_ext.backends.pipeline.calls.shape_limit import AT_ONCE, MOST_SHAPES, refusals


def built(lengths: list[int]) -> tuple[list[int], list[str]]:
    """The lengths that get an engine, in their order, and what is said of the others."""
    journal = Journal()
    [refuses] = refusals([ShapeEnv().create_unbacked_symint()], journal)
    found = [each for each in lengths if not refuses([each])]
    return list(dict.fromkeys(found)), [each.message for each in journal.fallbacks.values()]


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
    assert built(lengths)[0] == expected


def test_there_are_most_of_them() -> None:
    lengths = [each for number in range(50) for each in (number, number)]
    found, said = built(lengths)
    assert len(found) == MOST_SHAPES
    assert AT_ONCE < MOST_SHAPES
    assert ["twice" in said[0], "limit" in said[-1]] == [True, True]


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
