"""A partition as a JAX function of arrays, and torch's tensors as arguments of it."""

import functools
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch.fx import GraphModule, map_arg

from dynamo_ext.backends.engines.xla.ops import table
from dynamo_ext.backends.fx_graph import attribute
from dynamo_ext.backends.support.lending import plain
from dynamo_ext.backends.support.single_op import operator_name
from dynamo_ext.backends.support.tensor_limits import DTYPES

_MATRIX = 2


@functools.cache
def dtypes() -> dict[torch.dtype, Any]:
    """Torch's dtypes as JAX's."""
    table.import_jax()
    import jax.numpy as jnp

    return {getattr(torch, name): jnp.dtype(name) for name in DTYPES}


def importer(example: torch.Tensor) -> Callable[[torch.Tensor], Any]:
    """What gives JAX a tensor of this dtype as a view of its memory.

    JAX copies by itself what does not start at a multiple of 64 bytes.
    """
    if example.device.type != "cpu":
        import jax

        return lambda tensor: jax.dlpack.from_dlpack(plain(tensor))
    if example.dtype is torch.bfloat16:
        # numpy takes bfloat16 from ``ml_dtypes``, by the bits.
        bfloat16 = dtypes()[torch.bfloat16]
        return lambda tensor: plain(tensor).view(torch.int16).numpy().view(bfloat16)
    return lambda tensor: plain(tensor).numpy()


def as_function(
    graph: GraphModule, *, fold: bool
) -> tuple[Callable[..., tuple[Any, ...]], list[torch.Tensor]]:
    """A partition of fixed shapes as a JAX function, and the constants that it wants first.

    With ``fold``, constants (``get_attr`` nodes) other than matrices are part of the function,
    where XLA folds them: convolutions gain by half. Matrices gain nothing, and as arguments they
    are not copied. The function takes constants, then inputs. It gives the outputs, each apart from
    inputs and other outputs.
    """
    nodes = list(graph.graph.nodes)
    held = {n: attribute(graph, str(n.target)) for n in nodes if n.op == "get_attr"}
    folded = {n: importer(t)(t) for n, t in held.items() if fold and t.ndim != _MATRIX}
    constants = [node for node in held if node not in folded]
    inputs = [node for node in nodes if node.op == "placeholder"]
    calls = [node for node in nodes if node.op == "call_function"]
    outputs: Any = graph.graph.output_node().args[0]

    def function(*values: Any) -> tuple[Any, ...]:
        import jax.numpy as jnp

        env = {node: jnp.asarray(value) for node, value in folded.items()}
        seen = set(map(id, (*values, *env.values())))
        env.update(zip([*constants, *inputs], values, strict=True))
        for node in calls:
            env[node] = _evaluated(node, env)
        results = []
        for node in outputs:
            value = env[node]
            # A JAX function hands such a result through without XLA's seeing it.
            results.append(jnp.array(value, copy=True) if id(value) in seen else value)
            seen.add(id(value))
        return tuple(results)

    return function, [held[node] for node in constants]


def _evaluated(node: Any, env: dict[Any, Any]) -> Any:
    args, kwargs = (map_arg(given, env.__getitem__) for given in (node.args, node.kwargs))
    if node.target is operator.getitem:
        return _conform(args[0][args[1]], node.meta.get("val"))
    function = table.lowering(node.target)
    if function is None:
        message = f"There is no XLA lowering for {operator_name(node.target)}"
        raise NotImplementedError(message)
    value, facts = function(*args, **kwargs), node.meta.get("val")
    # Of several results those that are read conform, as they are read.
    return value if isinstance(facts, (tuple, list)) else _conform(value, facts)


def _conform(value: Any, facts: Any) -> Any:
    """A lowering's result in the dtype that torch gives; a shape that differs is an error."""
    import jax.numpy as jnp

    if value is None or not isinstance(facts, torch.Tensor):
        return value
    array = jnp.asarray(value)
    if array.shape != tuple(facts.shape):
        message = f"The lowering gives shape {array.shape} where torch has {tuple(facts.shape)}"
        raise RuntimeError(message)
    wanted = dtypes()[facts.dtype]
    return array if array.dtype == wanted else array.astype(wanted)
