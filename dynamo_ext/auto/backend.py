"""The ``auto`` backend: race once, remember, and let the losers go."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import journal as journals
from dynamo_ext.backends import patience, registry
from dynamo_ext.backends.base import OptionSpec, Support
from dynamo_ext.errors import OptionError
from dynamo_ext.records import Availability, Contest, Contestant

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Executor

    from torch.fx import GraphModule, Node

    from dynamo_ext.auto.circuit import Circuits
    from dynamo_ext.auto.store import Store
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
_GONE = "It ended its process on this graph before; %dynamo cache clear forgets that."

_OPTIONS = (
    OptionSpec(
        "candidates", default=_ALL, help="who races: names with + between them, as onnxrt+inductor"
    ),
    OptionSpec("budget", 5.0, "seconds to time a graph for, or as many as 12 rounds take", least=0),
    OptionSpec(
        "compile_budget", 300.0, "seconds that a backend may take to compile a graph", least=1
    ),
    OptionSpec("remember", default=True, help="know the winner again in later kernels"),
    OptionSpec(
        "isolate", default=False, help="race in processes of their own: a crash is a row, and slow"
    ),
    OptionSpec("tune", default=False, help="let tvm_meta_schedule take part, which takes minutes"),
)


class AutoBackend:
    """For every captured graph the fastest backend that is right.

    Each graph is raced at its first call, on that call's own inputs: every candidate is compiled,
    its results compared with eager's (with float64's where eager itself is doubtful), and all are
    timed interleaved. Who is clearly behind drops out early; eager stays unless something is
    faster beyond noise. The winner is remembered on disk for this graph, these shapes, this
    machine and these versions, so that a later kernel compiles it alone.

    In the calls that come, the winners are timed in the company of the code around them, against
    eager and against one backend for all (``circuit``, ``laps``). With ``isolate``,
    or under ``race_on``, races are held in other processes (``apart``): what ends its process there
    is remembered and left out.
    """

    name = "auto"
    summary = "For every graph the fastest backend that is right, raced once and remembered"
    extra = ""
    whole_graph = True
    checks_itself = True
    options: Sequence[OptionSpec] = _OPTIONS

    def __init__(self, store: Store | None = None) -> None:
        self._store = store
        self._circuits: Circuits | None = None

    @property
    def on_trial(self) -> int:
        """Calls of graphs so far, in this thread, whose form was not final."""
        return self.circuits.on_trial

    @property
    def circuits(self) -> Circuits:
        """Where it turns out which graphs run one after another."""
        if self._circuits is None:
            from dynamo_ext.auto.circuit import Circuits

            self._circuits = Circuits()
        return self._circuits

    @property
    def store(self) -> Store:
        """Where races are remembered."""
        if self._store is None:
            from dynamo_ext.auto.store import default_store

            self._store = default_store()
        return self._store

    def use(self, store: Store) -> None:
        """Remember races elsewhere from now on."""
        self._store = store

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

        from dynamo_ext.auto import apart
        from dynamo_ext.auto.fingerprint import graph_key, place_key
        from dynamo_ext.auto.racer import Racer

        journal = journals.current()
        names = candidate_names(options)
        tensors = [value for value in example_inputs if isinstance(value, torch.Tensor)]
        device = tensors[0].device if tensors else torch.device("cpu")
        training = torch.is_grad_enabled() and any(t.requires_grad for t in tensors)
        key = graph_key(graph, example_inputs, training=training)
        place = place_key(names, device)
        work = _Work(graph, list(example_inputs), journal, key, place)
        if options["remember"]:
            known = self.store.find(key, place)
            made = self._known(known.contest, work) if known is not None else None
            if made is not None:
                return made
        carrier = apart.executor()
        if (options["isolate"] or carrier is not None) and apart.can_be_sent(example_inputs):
            return self._raced_apart(work, names, options, training=training, carrier=carrier)
        gone = self.store.crashed(key, place)
        racer = Racer(graph, journal, float(options["budget"]), self.circuits)
        compilers = {name: registry.compiler(name) for name in names if name not in gone}
        with patience.allowing(float(options["compile_budget"])):
            racer.compile(compilers, example_inputs)
        racer.absent = tuple(Contestant(name, "crashed", reason=_GONE) for name in sorted(gone))
        if options["remember"]:
            racer.then = lambda contest: self.store.remember(key, place, contest)
        return racer

    def _known(
        self, contest: Contest, work: _Work, *, remember: bool = True
    ) -> Callable[..., Any] | None:
        """The winner of an earlier race alone, or nothing where it does not compile any more."""
        from dynamo_ext.auto.known import Known

        held = dataclasses.replace(contest, remembered=True)
        if held.winner == "eager":
            work.journal.contest = held
            return work.graph.forward
        known = Known(work.graph, work.journal, held, self.circuits)
        known.forget = lambda: self.store.forget(work.key, work.place)
        if remember:
            known.remember = lambda found: self.store.remember(work.key, work.place, found)
        if not known.compile(registry.compiler(held.winner), work.inputs):
            self.store.forget(work.key, work.place)
            return None
        work.journal.contest = held
        return known

    def _raced_apart(
        self,
        work: _Work,
        names: Sequence[str],
        options: Mapping[str, Any],
        *,
        training: bool,
        carrier: Executor | None,
    ) -> Callable[..., Any]:
        """The winner of a race in other processes; eager where the graph cannot be sent there."""
        from dynamo_ext.auto import apart

        try:
            held = apart.hold(
                work.graph,
                work.inputs,
                names,
                budget=float(options["budget"]),
                compile_budget=float(options["compile_budget"]),
                training=training,
                carrier=carrier,
            )
        except OptionError as error:
            work.journal.add_fallback("lower", "graph", error=error, message=str(error))
            return work.graph.forward
        if options["remember"] and not held.note:
            with contextlib.suppress(OSError):
                self.store.remember(work.key, work.place, held)
        made = self._known(held, work, remember=bool(options["remember"]))
        work.journal.contest = held
        return made or work.graph.forward


@dataclasses.dataclass(frozen=True)
class _Work:
    """A captured graph, and what it is known by."""

    graph: GraphModule
    inputs: list[Any]
    journal: Journal
    key: str
    place: str


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


BACKEND = AutoBackend()
