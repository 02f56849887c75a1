"""Backends that take a captured graph whole: torch's own, and any callable of the user's."""

from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import fact
from dynamo_ext.backends.pipeline.autocast.lowering import Lowering
from dynamo_ext.backends.pipeline.autocast.sensitive_operations import SecondForm
from dynamo_ext.backends.pipeline.engines import CompileContext
from dynamo_ext.backends.pipeline.graph_call import GraphCall
from dynamo_ext.backends.pipeline.input_views import apart
from dynamo_ext.records.common import FULL
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of


def compiled(
    graph: GraphModule, example_inputs: Sequence[Any], context: CompileContext
) -> Callable[..., Any]:
    """Hand a graph to a backend as it is; whatever that raises is raised.

    A backend that returns the graph's own ``forward`` gets no wrapper, so ``eager`` costs nothing;
    nor does one that is ``self_verifying``, because other backends made what it returns. With a
    lower ``precision`` among the options the backend gets the graph under autocast, and where that
    is too far off, again, with sensitive operations kept out of it.
    """
    backend, options, journal = context.backend, context.options, context.journal
    chosen = precision.of(options)
    lowering = Lowering(graph, example_inputs, chosen) if chosen != FULL else None
    given = lowering.graph() if lowering else graph
    run = _handed_over(given, example_inputs, context, lowering)
    if not callable(run):
        message = f"The backend returned {type(run).__name__}, which cannot be called."
        journal.add_fallback("lower", "graph", message=message)
        return forward_of(graph)
    if run == graph.forward:
        return forward_of(graph)
    if fact(backend, "self_verifying"):
        return run  # type: ignore[no-any-return]
    check = bool(options.get("verify", False))
    if lowering is None:
        return GraphCall(graph, run, context, check=check).call

    def lower_again(kept: Collection[str], inputs: Sequence[Any]) -> Callable[..., Any]:
        rest = lowering.graph(kept)
        return _within(lowering, rest, _handed_over(rest, inputs, context, lowering))

    # Without Dynamo, a compiler would take the sizes of one call for those of all.
    values = [*example_inputs, *(node.meta.get("example_value") for node in graph.graph.nodes)]
    once = run != given.forward and any(map(dispatch.is_symbolic, values))
    second = None if once else SecondForm(lowering, lower_again)
    run = _within(lowering, given, run)
    return GraphCall(graph, run, context, check=check, second=second).call


def _handed_over(
    graph: GraphModule, inputs: Sequence[Any], context: CompileContext, lowering: Lowering | None
) -> Any:
    """What the backend makes of a graph, under autocast where it is lowered."""
    backend, options = context.backend, context.options
    if lowering is not None:
        context.journal.lowered[""] = lowering.product_operations(graph, inputs)
    with lowering.on() if lowering else nullcontext(), _kept_apart(precision.of(options)):
        if fact(backend, "through_aot"):
            return apart(graph, lambda rest: backend.lower(rest, inputs, options))
        run = backend.lower(graph, inputs, options)
        return graph.forward if run is graph else run


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


def _within(lowering: Lowering, graph: GraphModule, run: Callable[..., Any]) -> Callable[..., Any]:
    """What a backend made of a graph; under autocast where that is the graph itself."""
    if run != graph.forward:
        return run
    forward = forward_of(graph)

    def call(*args: Any) -> Any:
        with lowering.on():
            return forward(*args)

    return call
