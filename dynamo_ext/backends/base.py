"""What a backend must say of itself, and nothing of how graphs reach it.

``pipeline`` owns the road (normalise, freeze, partition, lower, verify, run); a backend answers
three questions. ``CompilerFn`` is TorchDynamo's own contract for a backend callable.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from dynamo_ext.records import Availability, OptionSpec

if TYPE_CHECKING:
    import torch
    from torch.fx import GraphModule, Node

__all__ = [
    "Availability",
    "Backend",
    "CompiledFn",
    "CompilerFn",
    "OptionSpec",
    "Options",
    "Support",
]

CompiledFn = Callable[..., Sequence[Any]]
CompilerFn = Callable[["GraphModule", Sequence[Any]], Callable[..., Any]]
Options = Mapping[str, Any]


@dataclass(frozen=True)
class Support:
    """Whether an engine takes one node, and if not, why."""

    supported: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.supported


@runtime_checkable
class Backend(Protocol):
    """A backend: a name and three answers.

    ``whole_graph`` backends take the captured graph as Dynamo hands it over (torch's own
    compilers); the others receive partitions of the functional ATen graph.
    """

    name: str
    summary: str
    extra: str
    whole_graph: bool
    options: Sequence[OptionSpec]

    def probe(self) -> Availability:
        """Installed, which version, which device; if not, the reason and the remedy."""
        ...

    def supports(self, node: Node) -> Support:
        """Whether the engine takes this node of a normalised graph; asked before lowering."""
        ...

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Turn a graph into a callable with the same inputs and a sequence of outputs.

        Raises anything: the pipeline records it and runs the graph eagerly.
        """
        ...
