"""What Dynamo captures, for tests of what is done with a graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from collections.abc import Callable


def captured(
    function: Callable[..., Any], *args: Any, **options: Any
) -> tuple[torch.fx.GraphModule, tuple[Any, ...]]:
    """The first graph of a function, and the inputs of that graph."""
    found: list[Any] = []

    def keep(graph: torch.fx.GraphModule, _: object) -> Callable[..., Any]:
        def run(*inputs: Any) -> Any:
            found.append((graph, inputs))
            return graph.forward(*inputs)

        return run

    torch._dynamo.reset()
    torch.compile(function, backend=keep, **options)(*args)
    return found[0]
