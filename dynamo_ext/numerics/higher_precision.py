"""A partition at the next higher precision: what is right where an engine and eager disagree.

Deep networks magnify rounding, so two right results may be farther apart than a tolerance
allows; then the one that matters is the distance of each from the exact result. Torch judges its
own backends so (``torch._dynamo.utils.same`` with ``fp64_ref``).
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch.fx import GraphModule, Interpreter, Node
from torch.utils._pytree import tree_map

from dynamo_ext.interruptions import suppressed
from dynamo_ext.numerics import tolerance

_HIGHER = {
    torch.bfloat16: torch.float32,
    torch.float16: torch.float32,
    torch.float32: torch.float64,
    torch.complex64: torch.complex128,
}


def as_good_as_eager(
    graph: GraphModule, args: Sequence[Any], found: Sequence[Any], expected: Sequence[Any]
) -> bool:
    """Whether an engine's outputs are about as near to the exact ones as eager's are.

    ``graph`` is the partition, or a captured graph; ``args`` are its inputs. ``found`` and
    ``expected``, the engine's and eager's outputs, disagree; behind the outputs there may be the
    inputs as the graph has left them. False, too, where the graph does
    not run at a higher precision, or an output that is not a floating-point tensor differs: there
    is nothing between right and wrong for those.
    """
    return len(found) == len(expected) and all(
        map(is_as_good, found, expected, exact(graph, args, expected))
    )


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
    inputs = tree_map(_raised, tuple(args))
    return *_Raised(graph).run(*inputs), *inputs


def is_as_good(found: Any, expected: Any, exact: Any, numbers: torch.dtype | None = None) -> bool:
    """Whether one output agrees with eager's, or is about as near to the exact one.

    Outputs are tensors of any shape, numbers or ``None``. ``exact`` is the same at a higher
    precision; anything else excuses nothing. ``numbers`` is as in ``tolerance.disagreement``.
    """
    if not tolerance.difference(found, expected, numbers):
        return True
    if not tolerance.floating(found, expected, exact):
        return False
    alike = found.shape == expected.shape == exact.shape and found.dtype == expected.dtype
    if not alike or exact.dtype == expected.dtype:
        return False
    return not tolerance.farther(found, expected, exact)


def _raised(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(_HIGHER.get(value.dtype, value.dtype))
    return value


def _dtype(value: Any) -> Any:
    return _HIGHER.get(value, value) if isinstance(value, torch.dtype) else value


class _Raised(Interpreter):
    def fetch_attr(self, target: str) -> Any:
        return _raised(super().fetch_attr(target))

    def fetch_args_kwargs_from_env(self, n: Node) -> Any:
        # Tensors are raised already, where they came in; only dtypes written here are not.
        return tree_map(_dtype, super().fetch_args_kwargs_from_env(n))
