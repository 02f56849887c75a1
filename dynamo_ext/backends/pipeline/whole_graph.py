"""Backends that take a captured graph whole: torch's own, and any callable of the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import precision
from dynamo_ext.backends.base import fact
from dynamo_ext.backends.pipeline.autocast import under_autocast
from dynamo_ext.backends.pipeline.graph_call import GraphCall
from dynamo_ext.backends.pipeline.input_views import apart
from dynamo_ext.records.common import FULL

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.backends.pipeline.engines import CompileContext


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
    if chosen != FULL:
        given = under_autocast(graph, example_inputs, chosen)
    if fact(backend, "through_aot"):
        run = apart(given, lambda rest: backend.lower(rest, example_inputs, options))
    else:
        run = backend.lower(given, example_inputs, options)
    if not callable(run):
        message = f"The backend returned {type(run).__name__}, which cannot be called."
        journal.add_fallback("lower", "graph", message=message)
        return graph.forward
    if run == graph.forward or run is graph:
        return graph.forward
    if fact(backend, "self_verifying"):
        return run
    check = bool(options.get("verify", False))
    return GraphCall(graph, run, context, check=check).call
