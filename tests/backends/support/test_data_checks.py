"""The check of indices and divisors that partitions come with: when it speaks, and what it costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.fx.experimental.proxy_tensor import make_fx

from dynamo_ext.backends.base import LoweringError, RunEagerlyError, RunThisCallEagerlyError
from dynamo_ext.backends.support import data_checks

TABLE = torch.arange(12.0).reshape(4, 3)
ATEN = torch.ops.aten
CONSTANT = torch.tensor([0, -4, 3])


def index(*values: int) -> torch.Tensor:
    return torch.tensor(values)


def graph_of(fn: Callable[..., Any], *args: torch.Tensor) -> Any:
    graph = make_fx(fn)(*args)
    for node, value in zip(graph.graph.find_nodes(op="placeholder"), args, strict=True):
        node.meta["val"] = value
    return graph


def checked(fn: Callable[..., Any], *args: torch.Tensor) -> Callable[..., Any]:
    made = data_checks.with_check(graph_of(fn, *args))
    assert made is not None
    return data_checks.raising(made)


CASES: dict[str, tuple[Callable[..., Any], torch.Tensor, torch.Tensor, torch.Tensor]] = {
    "index": (lambda x, i: (ATEN.index.Tensor(x, [None, i]),), TABLE, index(-3, 2), index(0, 3)),
    "embedding": (lambda x, i: (ATEN.embedding(x, i),), TABLE, index(0, 3), index(0, 4)),
    "gather": (lambda x, i: (x.gather(-1, i[:, None]),), TABLE, index(0, 2, 1, 0), index(0, -1)),
    "scatter": (lambda x, i: (x.scatter(0, i[:, None], 1.0),), TABLE, index(3, 0), index(4, 0)),
    "select": (lambda x, i: (x.index_select(1, i),), TABLE, index(2, 2), index(2, 3)),
    "one number": (lambda x, i: (x.index_select(0, i),), TABLE[0, 0], index(0), index(1)),
    "put": (
        lambda x, i: (ATEN.index_put(x, [i], x.sum()),), TABLE, index(-4, 3), index(-5, 3)
    ),
    "division": (lambda x, y: (x // y,), index(4, 5), index(1, -1), index(1, 0)),
    "remainder": (lambda x, y: (x % y,), index(4, 5), index(1, -1), index(0, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_it_raises_where_torch_does_and_only_there(name: str) -> None:
    fn, x, good, bad = CASES[name]
    graph = graph_of(fn, x, good)
    made = data_checks.with_check(graph)
    assert made is not None
    *results, wrong = made(x, good)
    torch.testing.assert_close(results, list(fn(x, good)))
    assert (wrong.shape, wrong.dtype, bool(wrong)) == ((), torch.bool, False)
    # The engine does not raise, and its result means nothing.
    found: Any = made.graph.output_node().args[0]
    assert [node.meta["val"].dtype for node in found[len(results) :]] == [torch.bool]
    with pytest.raises((IndexError, RuntimeError)):
        fn(x, bad)
    made.graph.output_node().args = ((found[-1],),)
    made.graph.eliminate_dead_code()
    made.recompile()
    with pytest.raises(RunEagerlyError, match="out of range"):
        data_checks.raising(made)(x, bad)


def test_several_are_one_result() -> None:
    def fn(x: torch.Tensor, i: torch.Tensor, j: torch.Tensor) -> Any:
        return (ATEN.index.Tensor(x, [i, j]) + x.index_select(1, j)[0],)

    run = checked(fn, TABLE, index(0, 1), index(1, 2))
    assert len(run(TABLE, index(-1, 1), index(1, 2))) == 1


@pytest.mark.parametrize(
    "fn",
    [
        lambda x: (x / 2, x.sum() * 3),
        lambda x: (ATEN.index.Tensor(x, [x[:, 0] > 1]),),
        lambda x: (x.remainder(2), x.div(0, rounding_mode="floor")),
        lambda x: (x.long() % 3, x.long() // 2),
        lambda x: (ATEN.index.Tensor(x, [CONSTANT]),),
    ],
    ids=["no indices", "a mask", "floats", "numbers", "constants"],
)
def test_what_cannot_raise_is_not_checked(fn: Callable[..., Any]) -> None:
    assert data_checks.with_check(graph_of(fn, TABLE)) is None


def test_what_raises_at_each_call_is_not_lowered() -> None:
    by_number = graph_of(lambda x: (x % 3,), index(1, 2))
    node = next(each for each in by_number.graph.nodes if each.op == "call_function")
    node.args = (node.args[0], 0)
    place = index(0, 3)
    by_constant = graph_of(lambda x: (ATEN.index.Tensor(x, [place]),), TABLE)
    for node in by_constant.graph.find_nodes(op="get_attr"):
        getattr(by_constant, node.target).fill_(4)
    for graph in (by_number, by_constant):
        with pytest.raises(LoweringError, match="out of range"):
            data_checks.with_check(graph)


class TestInputCheck:
    """For an engine that has 32 bits of an integer, and moves alone those that it is given."""

    @staticmethod
    def look(fn: Callable[..., Any], *args: torch.Tensor) -> Callable[..., Any]:
        made = data_checks.input_check(graph_of(fn, *args))
        assert made is not None
        return lambda *inputs: made(inputs)

    def test_of_no_integers_there_is_none(self) -> None:
        assert data_checks.input_check(graph_of(lambda x: (x + 1,), TABLE)) is None

    def test_indices_that_were_moved_are_looked_at_where_they_are_used(self) -> None:
        def fn(x: torch.Tensor, y: torch.Tensor, edges: torch.Tensor) -> Any:
            to = torch.cat([edges[1], edges[1]]).view(-1, 1).expand(-1, 3)
            return (y.gather(0, to), x.index_select(0, edges[0]))

        x, y = TABLE, torch.ones(6, 3)
        run = self.look(fn, x, y, torch.tensor([[0, 1], [1, 2]]))
        run(x, y, torch.tensor([[3, 0], [0, 3]]))
        # In range of the larger tensor, which is the one that it indexes.
        run(x, y, torch.tensor([[0, 1], [5, 4]]))
        for bad in ([[4, 0], [0, 1]], [[0, 0], [6, 1]], [[0, -1], [0, 1]], [[0, 0], [0, -1]]):
            with pytest.raises(RunEagerlyError, match="out of range"):
                run(x, y, torch.tensor(bad))

    @pytest.mark.parametrize("dtype", [torch.int64, torch.int32])
    @pytest.mark.parametrize("sign", [1, -1])
    def test_an_integer_that_is_not_exact_in_32_bits_is_eagers(
        self, dtype: torch.dtype, sign: int
    ) -> None:
        run = self.look(lambda x: (x.view(1, -1),), torch.zeros(3, dtype=dtype))
        run(torch.tensor([0, sign * 2**24], dtype=dtype))
        run(torch.zeros(0, dtype=dtype))
        with pytest.raises(RunThisCallEagerlyError, match="exactly"):
            run(torch.tensor([0, sign * (2**24 + 1)], dtype=dtype))

    def test_a_constant_that_is_not_exact_is_not_lowered(self) -> None:
        large = torch.tensor([2**40])
        graph = graph_of(lambda x: (torch.cat([x, large]),), torch.zeros(3, dtype=torch.int64))
        for node in graph.graph.find_nodes(op="get_attr"):
            node.meta["val"] = large
        with pytest.raises(LoweringError, match="exactly"):
            data_checks.input_check(graph)
