"""Backends that take a captured graph whole: torch's own, and any callable of the user's."""

from collections.abc import Callable, Sequence
from contextlib import nullcontext
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends.base import LoweringError, fact
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.fx_graph import may_differentiate
from dynamo_ext.backends.pipeline.autocast import cast_weights
from dynamo_ext.backends.pipeline.autocast.cast_weights import CastOnce
from dynamo_ext.backends.pipeline.autocast.lowering import Lowering
from dynamo_ext.backends.pipeline.input_views import apart
from dynamo_ext.records.common import FULL
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

Compile = Callable[[GraphModule, Sequence[Any]], Any]


def handed_over(
    graph: GraphModule,
    inputs: Sequence[Any],
    context: CompileContext,
    in_partitions: Compile | None = None,
) -> Callable[..., Any]:
    """Hand a graph to a backend as it is; whatever that raises is raised.

    ``in_partitions`` does that with a graph under autocast for a backend that takes partitions.
    With a lower ``precision`` among the options the backend gets the graph under autocast. Weights
    are cast once, unless ``freeze`` is false.
    """
    lowering = None
    weights: dict[int, torch.Tensor] = {}
    if context.precision != FULL:
        lowering = Lowering(graph, inputs, context.precision)
        freeze = bool(context.options.get("freeze", True)) and not may_differentiate(inputs)
        # In the code's own blocks of autocast, products may be in another precision.
        freeze = freeze and not dispatch.autocasts(graph)
        graph = lowering.graph()
        if freeze:
            weights = cast_weights.separate(graph, inputs, lowering.dtype)
        # Dynamo is tracing: of tensors that it does not know, sizes would be symbols that it cannot
        # guard.
        added = graph.graph.find_nodes(op="placeholder")[len(inputs) :]
        inputs = [*inputs, *(node.meta["example_value"] for node in added)]
        context.journal.lowered[""] = lowering.product_operations(graph, inputs)
    # So torch's caches on disk keep apart what is compiled in each precision, and by torch. Before
    # torch 2.13 their keys lack autocast's dtype: float16 would get bfloat16's code. In 2.13 they
    # lack that no buffer is donated.
    config: Any = torch.compiler.config
    kept_apart = config.patch(cache_key_tag=f"{config.cache_key_tag}dynamo_ext {context.precision}")
    with lowering.on() if lowering else nullcontext(), kept_apart:
        if in_partitions is not None:
            run = in_partitions(graph, inputs)
        elif fact(context.backend, "through_aot"):
            run = apart(graph, lambda rest: context.lower(rest, inputs).run)
        else:
            run = context.lower(graph, inputs).run
    if not callable(run):
        message = f"The backend returned {type(run).__name__}, which cannot be called."
        raise LoweringError(message)
    as_it_is = run is graph or run == graph.forward
    if lowering is None:
        return graph.forward if as_it_is else run
    run = lowering.on()(forward_of(graph)) if as_it_is else run
    return CastOnce(run, weights, lowering.dtype).call if weights else run
