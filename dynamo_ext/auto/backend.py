"""The ``auto`` backend: race once, remember, and let the losers go."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import registry
from dynamo_ext.backends.base import OptionSpec, Support
from dynamo_ext.errors import OptionError
from dynamo_ext.records import Availability, Contest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from torch.fx import GraphModule, Node

    from dynamo_ext.auto.store import Store
    from dynamo_ext.backends.compilers import Compiler
    from dynamo_ext.backends.journal import Journal

CONTESTANTS = (
    "inductor",
    "onnxrt",
    "openvino",
    "tvm",
    "ofi",
    "ts",
    "xla",
    "cudagraphs",
    "tensorrt",
)
"""Who races unless the user says: engines that were faster than eager on some model."""

SLOW_TO_BUILD = ("tvm_meta_schedule",)
"""Joins with ``tune``: tuning takes minutes."""

_ALL = "available"

_OPTIONS = (
    OptionSpec(
        "candidates", default=_ALL, help="who races: names with + between them, as onnxrt+inductor"
    ),
    OptionSpec("budget", default=5.0, help="seconds to time one graph for; compiling comes on top"),
    OptionSpec("remember", default=True, help="know the winner again in later kernels"),
    OptionSpec("tune", default=False, help="let tvm_meta_schedule take part, which takes minutes"),
)


class AutoBackend:
    """For every captured graph the fastest backend that is right.

    Each graph is raced at its first call, on that call's own inputs: every candidate is compiled,
    its results compared with eager's (with float64's where eager itself is doubtful), and all are
    timed interleaved. Who is clearly behind drops out early; eager stays unless something is
    faster beyond noise. The winner is remembered on disk for this graph, these shapes, this
    machine and these versions, so that a later kernel compiles it alone.
    """

    name = "auto"
    summary = "For every graph the fastest backend that is right, raced once and remembered"
    extra = ""
    whole_graph = True
    options: Sequence[OptionSpec] = _OPTIONS

    def __init__(self, store: Store | None = None) -> None:
        self._store = store

    @property
    def store(self) -> Store:
        """Where races are remembered."""
        if self._store is None:
            from dynamo_ext.auto.store import default_store

            self._store = default_store()
        return self._store

    def probe(self) -> Availability:
        """Everywhere: at worst eager wins."""
        import torch

        return Availability(available=True, version=str(torch.__version__), device="cpu")

    def supports(self, node: Node) -> Support:
        """Everything: each candidate says what it does not take."""
        del node
        return Support(supported=True)

    def lower(
        self, graph: GraphModule, example_inputs: Sequence[Any], options: Mapping[str, Any]
    ) -> Callable[..., Any]:
        """The graph as a callable that races at its first call, or is the winner already."""
        import torch

        from dynamo_ext.auto.fingerprint import graph_key, place_key

        journal = journals.current()
        names = candidate_names(options)
        tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        training = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        key = graph_key(graph, example_inputs, training=training)
        place = place_key(names, device)
        if options["remember"]:
            known = self.store.find(key, place)
            if known is not None:
                return self._remembered(known.contest, graph, example_inputs, journal)
        race = _FirstCall(graph, journal, float(options["budget"]))
        race.compile({name: registry.compiler(name) for name in names}, example_inputs)
        if options["remember"]:
            race.then = lambda contest: self.store.remember(key, place, contest)
        return race

    def _remembered(
        self,
        contest: Contest,
        graph: GraphModule,
        example_inputs: Sequence[Any],
        journal: Journal,
    ) -> Callable[..., Any]:
        """The winner of an earlier race alone; its backend checks its first results itself."""
        journal.contest = dataclasses.replace(contest, remembered=True)
        if contest.winner == "eager":
            return graph.forward
        return registry.compiler(contest.winner)(graph, example_inputs)


def candidate_names(options: Mapping[str, Any]) -> list[str]:
    """Who races, in order.

    Raises
    ------
    OptionError
        Where ``candidates`` names no backend, or one that cannot race.
    """
    asked = str(options["candidates"])
    if asked == _ALL:
        listed = [*CONTESTANTS, *(SLOW_TO_BUILD if options["tune"] else ())]
        return [name for name in listed if registry.probe(registry.get(name)).available]
    names = [name.strip() for name in asked.split("+") if name.strip()]
    if not names or {"auto", "eager"} & set(names):
        message = f"candidates={asked} is nobody to race against eager."
        raise OptionError(message, "Name other backends, as in --opt candidates=onnxrt+inductor.")
    for name in names:
        registry.get(name)
    return names


class _FirstCall:
    """A graph in several forms until its first call, and in the winner's from then on."""

    def __init__(self, graph: GraphModule, journal: Journal, budget: float) -> None:
        from dynamo_ext.measure.switchboard import Switch

        self._switch: Switch | None = Switch(0, graph, {"eager": graph.forward})
        self._journal = journal
        self._budget = budget
        self._chosen: Callable[..., Any] | None = None
        self.then: Callable[[Contest], None] | None = None

    def compile(self, compilers: Mapping[str, Compiler], inputs: Sequence[Any]) -> None:
        """Compile the graph with each."""
        from dynamo_ext.measure.switchboard import compile_into

        if self._switch is not None:
            compile_into(self._switch, compilers, inputs)

    def __call__(self, *args: Any) -> Any:
        """Race at the first call; afterwards the winner runs."""
        chosen = self._chosen
        if chosen is None:
            chosen = self._race(args)
        return chosen(*args)

    def _race(self, args: tuple[Any, ...]) -> Callable[..., Any]:
        from dynamo_ext.auto import contest

        switch = self._switch
        if switch is None:
            message = "The graph was raced already."
            raise RuntimeError(message)
        held = contest.hold(switch, args, self._budget)
        self._journal.contest = held
        if held.winner in switch.journals:
            self._journal.adopt(switch.journals[held.winner])
        self._chosen = switch.compiled[held.winner]
        # The losers go, and their memory with them.
        self._switch = None
        if self.then is not None and not held.note:
            # A store that cannot be written must not cost the user the result.
            with contextlib.suppress(OSError):
                self.then(held)
        return self._chosen


BACKEND = AutoBackend()
