"""The ``auto`` backend: race once, remember the winner, free the others."""

from __future__ import annotations

import dataclasses
import functools
import math
from typing import TYPE_CHECKING, Any

import torch

from dynamo_ext.auto import ranking
from dynamo_ext.auto.cache import Entry, Store, outdated, place_key
from dynamo_ext.backends import calibration, crash_records, precision, registry
from dynamo_ext.backends.base import DIVIDE, Lowered, LoweringRequest, WholeGraphBackend, fact
from dynamo_ext.backends.fx_graph import may_differentiate
from dynamo_ext.backends.graph_key import graph_key
from dynamo_ext.errors import OptionError
from dynamo_ext.numerics.accuracy_bound import AccuracyBound, of_users
from dynamo_ext.records.autotune import GraphCandidateResult, GraphRace
from dynamo_ext.records.common import OptionSpec
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from dynamo_ext.auto.program_trial import ProgramTrials
    from dynamo_ext.backends.compiler import Compiler

_ALL = "available"

_NOT_LOWERED = (
    "It is not lowered: a metric of yours judges the results of a whole cell, before the cell runs."
)
_ON_ALL = "Run the cell again under %%dynamo -b auto --metric, which checks it first."

_SIZES = (
    "It compiles for each size, and the sizes of this graph change: naming it in candidates has it "
    "raced."
)


class AutoBackend(WholeGraphBackend):
    """For every captured graph the fastest backend that is right.

    Each graph is raced at its first call, on that call's own inputs: every candidate is compiled,
    its results compared with eager's (with float64's where eager itself is doubtful), and all are
    timed interleaved. A backend that is clearly slower drops out early; eager stays unless
    something is faster beyond noise. The winner is remembered on disk for this graph, these
    shapes, this machine and these versions, so that a later kernel compiles it alone.

    In the calls that come, the winners are timed within the program, against
    eager and against one backend for all (``program_trial``).
    """

    name = "auto"
    summary = "For every graph the fastest backend that is right, raced once and remembered"
    self_verifying = True
    options: Sequence[OptionSpec] = (
        OptionSpec(
            "candidates", default=_ALL, help="backends to race, joined by +, as onnxrt+inductor"
        ),
        OptionSpec(
            "accuracy",
            "",
            "race lower precisions, too, whose results meet this against float64: cosine>=0.9999, "
            "rel<=1e-2 or top1>=0.99; %%dynamo --accuracy checks it on the whole cell, too",
        ),
        OptionSpec(
            "budget", 5.0, "seconds to time a graph for, or as many as 6 rounds take", least=0
        ),
        OptionSpec("remember", default=True, help="reuse the winner in later kernels"),
        DIVIDE,
    )

    @functools.cached_property
    def store(self) -> Store:
        """Where races are remembered."""
        return Store()

    @functools.cached_property
    def trials(self) -> ProgramTrials:
        """Where graphs are timed within the program."""
        from dynamo_ext.auto.program_trial import ProgramTrials

        return ProgramTrials()

    @functools.cached_property
    def worth_a_race(self) -> set[str]:
        """Keys of graphs with symbolic sizes whose calls would repay a race."""
        return set()

    @property
    def unsettled_calls(self) -> int:  # type: ignore[override]
        """Calls of graphs so far, in this thread, whose variant was not final."""
        return self.trials.unsettled_calls

    def lower_for(self, request: LoweringRequest) -> Lowered:
        """The graph as a callable that races at its first call, or is the winner already."""
        from dynamo_ext.auto.autotuned_graph import AutotunedGraph
        from dynamo_ext.auto.waiting_race import WaitingRace

        graph, inputs, options = request.graph, request.inputs, request.options
        journal = request.journal
        asked = options["accuracy"]
        bound = AccuracyBound.parse(asked) if asked and not of_users(asked) else None
        devices = (value.device for value in inputs if isinstance(value, torch.Tensor))
        device = next(devices, torch.device("cpu"))
        names = candidate_names(options)
        symbolic = any(map(dispatch.is_symbolic, inputs))
        left_out = []
        if symbolic and options["candidates"] == _ALL:
            fixed = [name for name in names if not _takes_all_sizes(name)]
            names = [name for name in names if name not in fixed]
            left_out = [GraphCandidateResult(each, "not raced", reason=_SIZES) for each in fixed]
        # A function of the user's is for results of the cell, and says nothing of one graph's.
        lowers = bound is not None or (asked and self.trials.paused)
        if lowers:
            names += lowered_names(names, device.type)
        elif asked:
            journal.add_fallback(
                "unsupported", "graph", message=_NOT_LOWERED, remedy=_ON_ALL, harmless=True
            )
        key = graph_key(graph, inputs, training=may_differentiate(inputs))
        accuracy = (str(bound) if bound else asked) if lowers else ""
        if calibration.is_active() and any(precision.behind(name) == "int8" for name in names):
            # What wins in int8 by calibration need not win without.
            accuracy += ", calibrated"
        place = place_key(names, device, accuracy)
        known = self.store.find(key, place) if options["remember"] else None
        if known is not None and (again := outdated(known.contest, names)):
            names, out = _race_again(known.contest, names, again)
            left_out += out
        elif known is not None and known.contest.winner in {"eager", *names}:
            if found := self._remembered(request, bound, known):
                return found
            self.store.forget(key, place)
        # At symbolic sizes it may be for longer than anybody waits: the others come before it.
        names.sort(key=lambda name: symbolic and name == "inductor")
        # A race judges by the bound itself.
        compilers = {name: _compiler(name, options).within(bound) for name in names}
        left_out += _taken_out(compilers, key)
        racer = AutotunedGraph(graph, journal, float(options["budget"]), self.trials, bound)
        racer.absent = tuple(left_out)
        if options["remember"]:
            racer.remember = functools.partial(self.store.remember, key, place)
        if self._waits(key, request):
            mark = functools.partial(self.worth_a_race.add, key) if symbolic else None
            promised = functools.partial(self.store.promises, place)
            return Lowered(WaitingRace(graph, racer, compilers, journal, mark, promised))
        racer.compile(compilers, inputs)
        return Lowered(racer)

    def _remembered(
        self, request: LoweringRequest, bound: AccuracyBound | None, known: Entry
    ) -> Lowered | None:
        """The winner of an earlier race alone; nothing where it does not run any more."""
        from dynamo_ext.auto.autotuned_graph import CachedWinner

        held = dataclasses.replace(known.contest, remembered=True)
        if held.winner == "eager":
            request.journal.contest = held
            return Lowered(forward_of(request.graph))
        cached = CachedWinner(request.graph, request.journal, held, self.trials)
        cached.forget = functools.partial(self.store.forget, known.graph, known.place)
        cached.remember = functools.partial(self.store.remember, known.graph, known.place)
        compiler = _compiler(held.winner, request.options).within(bound, strict=True)
        if not cached.compile({held.winner: compiler}, list(request.inputs)):
            return None
        request.journal.contest = held
        return Lowered(cached)

    def _waits(self, key: str, request: LoweringRequest) -> bool:
        """Whether a graph's race waits until it would pay: not where its backends are named."""
        limited = request.budget.seconds < math.inf and request.options["candidates"] == _ALL
        return limited and key not in self.worth_a_race


def _compiler(name: str, options: Mapping[str, Any]) -> Compiler:
    """That of a candidate, which divides graphs for autograd where ``auto`` is to."""
    compiler, divides = registry.compiler(name), options[DIVIDE.name]
    if compiler.options.get(DIVIDE.name, divides) is divides:
        return compiler
    return registry.compiler(name, {DIVIDE.name: divides})


def candidate_names(options: Mapping[str, Any]) -> list[str]:
    """The backends that race, in order.

    Raises ``OptionError`` where ``candidates`` names no backend, or one that cannot race.
    """
    asked = str(options["candidates"])
    if asked == _ALL:
        return [name for name in registry.racing() if registry.probe(registry.get(name)).available]
    names = [name.strip() for name in asked.split("+") if name.strip()]
    if not names or {"auto", "eager"} & set(names):
        message = f"candidates={asked} leaves nothing to compare with eager."
        raise OptionError(message, "Name other backends, as in --opt candidates=onnxrt+inductor.")
    for name in names:
        registry.get(name)
    return names


def _race_again(
    contest: GraphRace, names: Sequence[str], again: Sequence[str]
) -> tuple[list[str], list[GraphCandidateResult]]:
    """The backends that race ``again`` with the fastest other one, and the rows that are kept."""
    held = set(names) - set(again)
    best = contest.winner if contest.winner in held else ranking.best_full(contest, held)
    racing = [name for name in names if name == best or name in again]
    left = set(names) - set(racing)
    return racing, [row for row in contest.contestants if row.backend in left]


def _takes_all_sizes(name: str) -> bool:
    """Whether what a backend compiles for a graph with symbolic sizes serves every size."""
    backend = registry.get(name)
    return bool(fact(backend, "whole_graph") or fact(backend, "dynamic_shapes"))


def _taken_out(compilers: dict[str, Compiler], key: str) -> list[GraphCandidateResult]:
    """Take out the backends that ended an earlier process with this graph; rows that say so."""
    tried = {n: crash_records.Attempt(n, c.availability.version, key) for n, c in compilers.items()}
    for name in (found := {n: d.message for n, each in tried.items() if (d := each.died())}):
        del compilers[name]
    return [GraphCandidateResult(name, "crashed", reason=why) for name, why in found.items()]


def lowered_names(names: Sequence[str], device: str) -> list[str]:
    """Eager and backends with a lower precision behind them, where they have one here.

    On a CPU float16 is left out: its kernels are slower than float32's.
    """
    chosen = ("bf16", "fp16", "int8") if device == "cuda" else ("bf16", "int8")
    return [
        f"{name}:{each}"
        for name in ("eager", *names)
        for each in chosen
        if registry.has_precision(name, each)
    ]


BACKEND = AutoBackend()
