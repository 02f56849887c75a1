"""Every captured graph compiled by several backends at once, with a switch for each graph.

Graphs can then be raced one by one on the inputs that they really get, and the code as a whole
run with any choice of backends.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends.checkpointing import keep_random_state

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule

    from dynamo_ext.records import Fallback, Partition

EAGER = "eager"


@dataclass
class Switch:
    """One captured graph and what each backend made of it.

    ``choice`` names the one that runs. ``inputs`` are the arguments of the first call, and ``grad``
    whether gradients were on in it.
    """

    number: int
    graph: GraphModule
    compiled: dict[str, Callable[..., Any]]
    journals: dict[str, journals.Journal] = field(default_factory=dict)
    errors: dict[str, Exception] = field(default_factory=dict)
    choice: str = EAGER
    inputs: tuple[Any, ...] | None = None
    grad: bool = True
    calls: int = 0

    def __call__(self, *args: Any) -> Any:
        """Run the chosen backend's form."""
        self.calls += 1
        if self.inputs is None:
            self.inputs, self.grad = args, _gradients_on()
        return self.compiled[self.choice](*args)

    @property
    def operations(self) -> int:
        """Calls in the captured graph."""
        return sum(node.op.startswith("call_") for node in self.graph.graph.nodes)

    def partitions(self, name: str) -> list[Partition]:
        """What a backend's journal says of its parts."""
        return list(self.journals[name].partitions.values()) if name in self.journals else []

    def fallbacks(self, name: str) -> list[Fallback]:
        """What a backend's journal says gave way."""
        return list(self.journals[name].fallbacks.values()) if name in self.journals else []


class Switchboard:
    """A compiler for Dynamo that gives every graph to several compilers.

    Parameters
    ----------
    compilers
        Names to compilers; the graph itself is always there as ``eager``.
    """

    def __init__(self, compilers: Mapping[str, Any]) -> None:
        self.name = "switchboard"
        self.__name__ = self.name
        self._compilers = dict(compilers)
        self.switches: list[Switch] = []

    def __call__(self, graph: GraphModule, inputs: Sequence[Any]) -> Callable[..., Any]:
        """Compile one captured graph with each (Dynamo's backend contract)."""
        keep_random_state(graph)
        switch = Switch(len(self.switches), graph, {EAGER: graph.forward})
        compile_into(switch, self._compilers, inputs)
        self.switches.append(switch)
        return switch

    def choose(self, choice: Mapping[int, str] | str) -> None:
        """Set every switch: to one name, or by the number of the graph (else eager)."""
        for switch in self.switches:
            wanted = choice if isinstance(choice, str) else choice.get(switch.number, EAGER)
            switch.choice = wanted if wanted in switch.compiled else EAGER


def compile_into(switch: Switch, compilers: Mapping[str, Any], inputs: Sequence[Any]) -> None:
    """Add each compiler's form of the switch's graph; a failure is kept in ``errors``."""
    for name, compiler in compilers.items():
        journal = journals.Journal(f"{name}-{switch.number}")
        try:
            with journals.active(journal):
                switch.compiled[name] = compiler(own_copy(switch.graph), inputs)
        except Exception as error:  # noqa: BLE001 - others may still compile it
            switch.errors[name] = error
            continue
        switch.journals[name] = journal


def runs_in_engine(switch: Switch, name: str) -> bool:
    """Whether any operation of this graph runs in the engine, as far as its journal tells."""
    parts = switch.partitions(name)
    if parts:
        return any(part.engine != EAGER for part in parts)
    whole = {"unavailable", "lower", "verify"}
    return not any(f.scope == "graph" and f.stage in whole for f in switch.fallbacks(name))


def _gradients_on() -> bool:
    import torch

    return torch.is_grad_enabled()


def own_copy(graph: GraphModule) -> GraphModule:
    """A graph that a backend may rewrite: parameters shared, nodes its own."""
    import torch

    nodes = torch.fx.Graph()
    nodes.output(nodes.graph_copy(graph.graph, {}))
    for old, new in zip(graph.graph.nodes, nodes.nodes, strict=True):
        source = getattr(old, "_dynamo_source", None)
        if source is not None:
            new._dynamo_source = source  # noqa: SLF001 - Dynamo's own mark on its placeholders
    made = torch.fx.GraphModule(graph, nodes)
    made.meta = dict(graph.meta)
    for name, value in vars(graph).items():
        # What Dynamo hangs on a graph beside its modules: where its inputs come from, and so on.
        if name not in vars(made):
            setattr(made, name, value)
    return made
