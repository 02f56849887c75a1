"""A partition as a JAX function of arrays, and torch's tensors as arguments of it."""

from __future__ import annotations

import functools
import operator
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import xla_import, xla_indexing, xla_lowerings
from dynamo_ext.backends.constants import attribute
from dynamo_ext.backends.single_operation import operator_name

if TYPE_CHECKING:
    from collections.abc import Callable

    import torch
    from torch.fx import GraphModule

_MATRIX = 2


@functools.cache
def dtypes() -> dict[torch.dtype, Any]:
    """The dtypes that cross over, as JAX's."""
    xla_import.import_jax()
    import jax.numpy as jnp
    import torch

    names = (
        *("bool", "int8", "int16", "int32", "int64", "uint8"),
        *("float16", "bfloat16", "float32", "float64"),
    )
    return {getattr(torch, name): jnp.dtype(name) for name in names}


def lend(tensor: torch.Tensor) -> Any:
    """A view of a tensor's memory that JAX takes as an argument without copying.

    JAX copies by itself what does not start at a multiple of 64 bytes.
    """
    if tensor.requires_grad:
        tensor = tensor.detach()
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if not tensor.is_contiguous():
        tensor = tensor.contiguous()
    if tensor.device.type != "cpu":
        import jax

        return jax.dlpack.from_dlpack(tensor)
    return tensor.numpy()


def lend_bfloat16(tensor: torch.Tensor) -> Any:
    """As ``lend``: numpy takes bfloat16 from ``ml_dtypes``, by the bits."""
    import torch

    if tensor.device.type != "cpu":
        return lend(tensor)
    return lend(tensor.detach().contiguous().view(torch.int16)).view(dtypes()[torch.bfloat16])


def lender(example: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    """How a tensor of this dtype is lent."""
    import torch

    return lend_bfloat16 if example.dtype is torch.bfloat16 else lend


def as_function(
    graph: GraphModule, *, fold: bool
) -> tuple[Callable[..., tuple[Any, ...]], list[torch.Tensor]]:
    """A partition as a JAX function, and the constants that it wants first.

    Parameters
    ----------
    graph
        A partition of fixed shapes; constants are ``get_attr`` nodes.
    fold
        Whether constants other than matrices are part of the function, where XLA folds them:
        convolutions gain by half. Matrices gain nothing, and as arguments they are not copied.

    Returns
    -------
    tuple
        The function takes constants, then inputs; it gives the outputs, each apart from inputs
        and other outputs, and, last, one boolean where something is required of the data.
    """
    nodes = list(graph.graph.nodes)
    held = {n: attribute(graph, str(n.target)) for n in nodes if n.op == "get_attr"}
    folded = {n: lender(t)(t) for n, t in held.items() if fold and t.ndim != _MATRIX}
    constants = [node for node in held if node not in folded]
    inputs = [node for node in nodes if node.op == "placeholder"]
    calls = [node for node in nodes if node.op == "call_function"]
    outputs: Any = graph.graph.output_node().args[0]

    def function(*values: Any) -> tuple[Any, ...]:
        import jax.numpy as jnp

        env = {node: jnp.asarray(value) for node, value in folded.items()}
        seen = set(map(id, (*values, *env.values())))
        env.update(zip([*constants, *inputs], values, strict=True))
        with xla_indexing.collecting() as required:
            for node in calls:
                env[node] = _evaluated(node, env)
        results = []
        for node in outputs:
            value = env[node]
            # A JAX function hands such a result through without XLA's seeing it.
            results.append(jnp.array(value, copy=True) if id(value) in seen else value)
            seen.add(id(value))
        if required:
            results.append(functools.reduce(operator.and_, required))
        return tuple(results)

    return function, [held[node] for node in constants]


def _evaluated(node: Any, env: dict[Any, Any]) -> Any:
    from torch.fx import map_arg

    args, kwargs = (map_arg(given, env.__getitem__) for given in (node.args, node.kwargs))
    if node.target is operator.getitem:
        return _conform(args[0][args[1]], node.meta.get("val"))
    function = xla_lowerings.lowering(node.target)
    if function is None:
        message = f"There is no XLA lowering for {operator_name(node.target)}"
        raise NotImplementedError(message)
    return _conform(function(*args, **kwargs), node.meta.get("val"))


def _conform(value: Any, facts: Any) -> Any:
    """A lowering's result in the dtype that torch gives; a shape that differs is an error."""
    import jax.numpy as jnp
    import torch

    if isinstance(facts, (tuple, list)):
        return tuple(map(_conform, value, facts))
    if value is None or not isinstance(facts, torch.Tensor):
        return value
    array = jnp.asarray(value)
    if array.shape != tuple(facts.shape):
        message = f"The lowering gives shape {array.shape} where torch has {tuple(facts.shape)}"
        raise RuntimeError(message)
    wanted = dtypes()[facts.dtype]
    return array if array.dtype == wanted else array.astype(wanted)
