"""Backends that take a captured graph whole: torch's own, and any callable of the user's."""

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import fact
from dynamo_ext.backends.pipeline.autocast import DTYPES, autocast_for, with_eagers_dtypes
from dynamo_ext.backends.pipeline.engines import CompileContext
from dynamo_ext.backends.pipeline.graph_call import GraphCall
from dynamo_ext.backends.pipeline.input_views import apart
from dynamo_ext.backends.pipeline.lowered_products import lowered_operations
from dynamo_ext.records.common import FULL
from dynamo_ext.torch_private.entered_modes import forward_of


def compiled(
    graph: GraphModule, example_inputs: Sequence[Any], context: CompileContext
) -> Callable[..., Any]:
    """Hand a graph to a backend as it is; whatever that raises is raised.

    A backend that returns the graph's own ``forward`` gets no wrapper, so ``eager`` costs nothing;
    nor does one that is ``self_verifying``, because other backends made what it returns. With a
    lower ``precision`` among the options the backend gets the graph under autocast.
    """
    backend, options, journal = context.backend, context.options, context.journal
    chosen, given = precision.of(options), graph
    lowering: Callable[[], AbstractContextManager[None]] = nullcontext
    if chosen != FULL:
        given, lowering = with_eagers_dtypes(graph), autocast_for(graph, example_inputs, chosen)
        journal.lowered[""] = lowered_operations(given, example_inputs, lowering, DTYPES[chosen])
    with lowering(), _kept_apart(chosen):
        if fact(backend, "through_aot"):
            run = apart(given, lambda rest: backend.lower(rest, example_inputs, options))
        else:
            run = backend.lower(given, example_inputs, options)
    if not callable(run):
        message = f"The backend returned {type(run).__name__}, which cannot be called."
        journal.add_fallback("lower", "graph", message=message)
        return forward_of(graph)
    if run == graph.forward or run is graph:
        return forward_of(graph)
    if fact(backend, "self_verifying"):
        return run
    if chosen != FULL and run == given.forward:
        run = _within(lowering, forward_of(given))
    check = bool(options.get("verify", False))
    return GraphCall(graph, run, context, check=check).call


def _kept_apart(chosen: str) -> AbstractContextManager[None]:
    """Let torch's caches on disk keep what is compiled in each precision apart.

    Before torch 2.13 their keys lack autocast's dtype, so float16 would get bfloat16's code.
    """
    if chosen == FULL:
        return nullcontext()
    config: Any = torch.compiler.config
    tagged: AbstractContextManager[None] = config.patch(
        cache_key_tag=f"{config.cache_key_tag}{chosen}"
    )
    return tagged


def _within(
    lowering: Callable[[], AbstractContextManager[None]], run: Callable[..., Any]
) -> Callable[..., Any]:
    def call(*args: Any) -> Any:
        with lowering():
            return run(*args)

    return call
