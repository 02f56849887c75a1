"""Modes that a captured graph switches on and off, where it raises between the two.

Dynamo writes ``with torch.no_grad():`` as two calls in the graph, and no ``finally``. An error
between them leaves gradients off for good, plain ``torch.compile``'s too (2.13.0); inference mode,
autocast, attention's kernels and saved tensors' hooks likewise.
"""

import functools
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from torch.fx import GraphModule, Node, map_arg

_MODES = frozenset(
    {
        "_backend_from_string",
        "_enter_autocast",
        "_enter_inference_mode",
        "_exit_autocast",
        "_exit_inference_mode",
        "_saved_tensors_hooks_disable",
        "_saved_tensors_hooks_enable",
        "_sdpa_kernel",
        "_set_grad_enabled",
    }
)
"""Names of the functions that Dynamo calls in a graph where a context begins or ends."""


def forward_of(graph: GraphModule) -> Callable[..., Any]:
    """``graph.forward``, with its modes ended where it raises, too.

    Where the graph switches none, this is ``graph.forward`` itself; else it is ``__wrapped__``.
    """
    # Inductor's graphs write theirs at the first call, which prints it where that raises.
    _ = graph.code
    run: Callable[..., Any] = graph.forward
    modes = [node for node in graph.graph.nodes if getattr(node.target, "__name__", "") in _MODES]
    if not modes:
        return run

    @functools.wraps(run)
    def call(*args: Any) -> Any:
        try:
            return run(*args)
        except BaseException as error:
            _end(graph, modes, error.__traceback__)
            raise

    return call


def is_forward(run: Callable[..., Any], graph: GraphModule) -> bool:
    """Whether something is the graph itself, or its ``forward_of``."""
    inner = getattr(run, "__wrapped__", run)
    return inner is graph or getattr(inner, "__self__", None) is graph


def _end(graph: GraphModule, modes: Sequence[Node], traceback: TracebackType | None) -> None:
    """Make the calls that end the modes which the graph has begun, as its own code would."""
    values: dict[str, Any] | None = None
    while traceback is not None:
        frame = traceback.tb_frame
        if frame.f_code.co_name == "forward" and frame.f_locals.get("self") is graph:
            values = dict(frame.f_locals)
        traceback = traceback.tb_next
    # Its code has set a variable for each node that it came by.
    if values is None or modes[0].name not in values:
        return
    for node in modes:
        given = [values.get(each.name) for each in node.all_input_nodes]
        if node.name in values or node.target.__name__.startswith("_enter") or None in given:  # type: ignore[union-attr]
            continue
        arguments = map_arg(node.args, lambda each, of=values: of[each.name])  # type: ignore[misc]
        values[node.name] = node.target(*arguments)  # type: ignore[operator]
