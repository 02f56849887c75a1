"""What a backend must say of itself, and nothing of how graphs reach it.

``pipeline`` owns the road (normalise, freeze, partition, lower, verify, run); a backend answers
three questions. ``CompilerFn`` is TorchDynamo's own contract for a backend callable.
"""

from __future__ import annotations

from abc import abstractmethod
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
    "StayEager",
    "Support",
]

CompiledFn = Callable[..., Sequence[Any]]
CompilerFn = Callable[["GraphModule", Sequence[Any]], Callable[..., Any]]
Options = Mapping[str, Any]


FREEZE = OptionSpec("freeze", default=True, help="make weights constants under no_grad")
VERIFY = OptionSpec("verify", default=True, help="compare the first call of each engine with eager")
VERIFY_GRAPH = OptionSpec(
    "verify", default=True, help="compare the first call of each graph with eager"
)
MIN_PARTITION = OptionSpec(
    "min_partition", 3, "fewest operations that a part of a cut-up graph has", least=0
)
PARTITION_OPTIONS = (FREEZE, VERIFY, MIN_PARTITION)
"""Of every engine that takes partitions."""

THREADS = OptionSpec("threads", 0, "its threads; 0 means as many as torch uses", least=0, most=1024)


@dataclass(frozen=True)
class Support:
    """Whether an engine takes one node, and if not, why."""

    supported: bool
    reason: str = ""

    def __bool__(self) -> bool:
        return self.supported


class StayEager(Exception):  # noqa: N818 - a decision, no error
    """Raised by a backend that would rather leave a graph, or a part of one, in eager.

    From ``decompositions`` the whole captured graph stays as it is, from ``lower`` the part that
    was to be lowered. ``supports`` has its own way to refuse one operation.

    Parameters
    ----------
    reason
        One sentence, which the report shows as an ``unsupported`` fallback; empty where there is
        nothing to tell.
    remedy
        What the user can do about it, if anything.
    """

    def __init__(self, reason: str = "", remedy: str = "") -> None:
        self.reason = reason
        self.remedy = remedy
        super().__init__(reason)


@runtime_checkable
class Backend(Protocol):
    """A backend: a name and three answers. A class of your own may derive from it.

    ``name``, ``supports`` and ``lower`` are what a backend must say; the rest has the values of
    an engine that is there and takes partitions. ``whole_graph`` backends take the captured graph
    as Dynamo hands it over (torch's own compilers); the others receive partitions of the
    functional ATen graph.

    More attributes are read where a backend has them. ``dynamic_shapes = True`` says that one
    engine serves every size; without it each shape gets an engine of its own, up to a bound.
    ``on_trial`` counts the calls that a backend made in forms which may not be the final ones: a
    comparison times it once the count stands still.
    ``forkless`` names a runtime whose threads a forked process would wait for: there, what was
    compiled before the fork runs in eager.
    ``decompositions(table, *, training)`` gives the decompositions to normalise with, from those
    to core ATen. It is called once for each captured graph.
    """

    name: str
    summary: str = ""
    extra: str = ""
    whole_graph: bool = False
    options: Sequence[OptionSpec] = PARTITION_OPTIONS

    def probe(self) -> Availability:
        """Installed, which version, which device; if not, the reason and the remedy."""
        return Availability(available=True)

    @abstractmethod
    def supports(self, node: Node) -> Support:
        """Whether the engine takes this node of a normalised graph; asked before lowering."""
        ...

    @abstractmethod
    def lower(
        self, graph: GraphModule, example_inputs: Sequence[torch.Tensor], options: Options
    ) -> CompiledFn:
        """Turn a graph into a callable with the same inputs and a sequence of outputs.

        Raises anything: the pipeline records it and runs the graph eagerly. ``StayEager`` is for
        what is no failure.
        """
        ...
