"""What Dynamo counts and times while it compiles."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch._dynamo import exc
from torch._dynamo import utils as dynamo_utils


def is_refusal(error: BaseException | None) -> bool:
    """Whether Dynamo raised since it could not capture a function whole."""
    return isinstance(error, exc.Unsupported)


def latest_metrics() -> Any:
    """The newest ``CompilationMetrics``, or ``None``."""
    known = dynamo_utils._compilation_metrics
    return known[-1] if known else None


def backward_compile_seconds(before: Any) -> float:
    """What compiling a backward graph took, if that is what came after ``before``."""
    newest = latest_metrics()
    if newest is None or newest is before or newest.is_forward is not False:
        return 0.0
    return (newest.backward_cumulative_compile_time_us or 0) / 1e6


def current_compile_id() -> str:
    """Dynamo's id of the frame being compiled, as ``3/0``; empty outside a compile."""
    found = torch._guards.CompileContext.current_compile_id()
    return str(found) if found is not None else ""


def graph_breaks_from_now() -> Callable[[], Sequence[Any]]:
    """What gives the ``GraphCompileReason`` of each break that this process meets after this."""
    met = len(dynamo_utils.graph_break_reasons)
    return lambda: dynamo_utils.graph_break_reasons[met:]


def input_shapes(graph: torch.fx.GraphModule) -> dict[str, tuple[str, ...]]:
    """The captured sizes of a graph's tensor inputs by Dynamo's source (``L['x']``)."""
    shapes = {}
    for node in graph.graph.find_nodes(op="placeholder"):
        source = getattr(node.meta.get("grapharg"), "source", None)
        value = node.meta.get("example_value")
        if source is not None and isinstance(value, torch.Tensor):
            shapes[source.name] = tuple(str(size) for size in value.shape)
    return shapes
