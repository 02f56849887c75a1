"""A partition, or a captured graph, at the next higher precision: its exact results."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map_only

from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics import tolerance

_HIGHER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def exact(graph: GraphModule, args: Sequence[Any], expected: Sequence[Any]) -> Sequence[Any]:
    """``raised``, or ``expected`` where the graph does not run at a higher precision."""
    # Not every operator runs at every precision.
    with suppressed(Exception):
        found = raised(graph, args)[: len(expected)]
        # Anything else is compared as eager has it.
        pairs = zip(found, expected, strict=True)
        return [higher if tolerance.floating(want) else want for higher, want in pairs]
    return expected


def raised(graph: GraphModule, args: Sequence[Any]) -> Sequence[Any]:
    """Run a graph with every dtype one step higher, those that it names itself included.

    Its outputs, and behind them its inputs as it has left them.
    """
    inputs = _raised(tuple(args))
    return *_Raised(graph).run(*inputs), *inputs


def _raised(value: Any) -> Any:
    return tree_map_only(
        torch.Tensor, lambda each: each.detach().to(_HIGHER.get(each.dtype, each.dtype)), value
    )


class _Raised(Interpreter):
    def fetch_attr(self, target: str) -> Any:
        return _raised(super().fetch_attr(target))

    def fetch_args_kwargs_from_env(self, n: Node) -> Any:
        # Tensors are raised already, where they came in; only dtypes written here are not.
        given = super().fetch_args_kwargs_from_env(n)
        return tree_map_only(torch.dtype, lambda each: _HIGHER.get(each, each), given)
