"""Eager's time for a graph beside its engine's: a few more calls of both.

They follow a call that went well, on its inputs, and give the report an estimate of what an engine
gained. A comparison is the way to a verdict.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.analysis.speed import FEWEST_PAIRS
from dynamo_ext.backends import calibration, effects, registry
from dynamo_ext.backends.fx_graph import held_tensors
from dynamo_ext.backends.undo import Undo
from dynamo_ext.capture.listen.run_log import GraphEntry, RunLog
from dynamo_ext.interruptions import failures
from dynamo_ext.measure.multi_backend import with_gradients, without_history
from dynamo_ext.numerics.rng_state import TorchState
from dynamo_ext.timing import clock, first_run
from dynamo_ext.timing.page_faults import PageFaults
from dynamo_ext.torch_private import dispatch
from dynamo_ext.torch_private.entered_modes import forward_of

MOST_PAIRS = 6
"""Pairs of a graph, after which no more are taken; of each size, where sizes change."""

SIZES = (0, 8, 24)
"""Calls in a run before the first size has pairs, and before others have: a size that grows."""

LEAD_IN_SECONDS = 0.01
"""Seconds of an engine's short calls that do not count: eager's threads still spin so long."""

SHORT_PAIRS = 4
"""Pairs of a graph with short calls: so many calls of its engine, and then as many of eager."""

_WARM = 2  # calls of eager before those that count: its weights are not in the caches

LEAST = 0.03
"""Seconds of a run that may go to pairs of a graph until there are enough for an estimate."""

FIRST, LATER = (0.5, 0.08), (0.1, 0.02)
"""Shares of a run's compiling and of a graph's calls that may go to pairs: until then, and then."""

AGAIN = 0.5
"""Seconds of a run after that which compiled, which may go to pairs of a graph."""

_NOT_COMPARED = frozenset({"auto", "eager"})
"""A race has times of its own, and eager is not faster than itself."""

_REPLAYING = _NOT_COMPARED | {"cudagraphs", "inductor"}
"""On CUDA, another call of a CUDA graph writes its results where those of the user's call are."""


Call = Callable[..., Any]
Pair = tuple[float, float]


class PairedCalls:
    """Called after each graph call of a run (``RunLog.after_graph_call``); times pairs.

    A graph whose backward pass was compiled is called with it from then on. One that changes its
    inputs gets copies, but where an engine or the graph holds tensors: then it has no pairs. Random
    numbers that are drawn are put back. Operators of other libraries and backends that are not ours
    are called as often as without: they may print.
    """

    def __init__(self) -> None:
        self._wait = clock.device_barrier()
        # Of the numbers among a graph's inputs.
        self._places: dict[GraphEntry, list[int]] = {}

    def __call__(
        self,
        run: RunLog,
        entry: GraphEntry,
        graph: GraphModule,
        compiled: Call,
        args: Sequence[Any],
    ) -> None:
        """Time ``compiled`` and eager, as often as the run can afford."""
        if calibration.is_active():
            return
        if (places := self._places.get(entry)) is None:
            entry.unpaired = _why_not(entry, graph, args)
            if entry.cold_pairs is None and not run.compile_seconds:
                entry.cold_pairs, entry.paired = entry.pairs, {}
            places = [place for place, each in enumerate(args) if isinstance(each, int)]
            self._places[entry] = places
        calls, sizes = run.calls[entry], tuple([args[place] for place in places])
        pairs = entry.paired.get(sizes, [])
        taken = len(entry.paired)
        due = pairs or (taken < len(SIZES) and calls.count > SIZES[taken])
        if entry.unpaired or _enough(pairs) or not due or dispatch.saving_is_watched():
            return
        engine, eager = compiled, forward_of(graph)
        if entry.is_trained:
            engine, eager = (partial(with_gradients, call) for call in (engine, eager))
        try:
            self._take(run, entry, (engine, eager), args, pairs)
        except failures():  # the user's own call went well: no estimate, then
            entry.unpaired = "a further call of a graph failed"
        if pairs:
            entry.paired[sizes] = pairs

    def _take(
        self,
        run: RunLog,
        entry: GraphEntry,
        both: tuple[Call, Call],
        args: Sequence[Any],
        pairs: list[Pair],
    ) -> None:
        """Add to ``pairs``, each of a call of the engine and one of eager, what may be taken."""
        calls, left = run.calls[entry], first_run.current().left
        # A first call runs a cold engine and, as its check, a cold eager: a pair takes less.
        took = calls.seconds + calls.backward_seconds
        known = pairs or entry.cold_pairs
        expected = sum(known[-1]) if known else took / calls.count / 4
        again = 0.0 if entry.cold_pairs is None else AGAIN
        while not _enough(pairs):
            short = expected < LEAD_IN_SECONDS
            cost = LEAD_IN_SECONDS + (SHORT_PAIRS + _WARM) * expected if short else expected
            compiling, calling = FIRST if (few := len(pairs) < FEWEST_PAIRS) else LATER
            # The calls of this graph alone: adding all up would cost more the more there are.
            allowed = max(calling * took, few * LEAST, again)
            allowed += min(compiling * run.compile_seconds, left)
            if run.paired_seconds + cost > allowed:
                break
            started = time.perf_counter()
            entry.faults = entry.faults if pairs else PageFaults()
            with _without_effects(entry, args) as own:
                if entry.is_trained and not pairs:
                    # Inductor has no check, in which eager would have run.
                    both[1](*own)
                if short:
                    pairs += self._in_a_row(*both, own)
                else:
                    pairs.append(self._in_turn(*both, own, len(pairs), entry.faults))
            if entry.cold_pairs and len(pairs) >= FEWEST_PAIRS:
                entry.cold_pairs = ()
            expected = sum(pairs[-1])
            run.paired_seconds += time.perf_counter() - started

    def _in_a_row(self, compiled: Call, eager: Call, args: Sequence[Any]) -> list[Pair]:
        """Several pairs of short calls, the engine's with its threads awake and no others.

        One, where they turn out not to be short.
        """
        # The first one may take long for eager's threads alone.
        led = self._seconds(compiled, args) + (last := self._seconds(compiled, args))
        if last > LEAD_IN_SECONDS / 2:
            return [(last, self._seconds(eager, args))]
        while led < LEAD_IN_SECONDS:
            led += self._seconds(compiled, args)
        engine = [self._seconds(compiled, args) for _ in range(SHORT_PAIRS)]
        theirs = [self._seconds(eager, args) for _ in range(_WARM + SHORT_PAIRS)]
        return list(zip(engine, theirs[_WARM:], strict=True))

    def _in_turn(
        self, compiled: Call, eager: Call, args: Sequence[Any], known: int, faults: PageFaults
    ) -> Pair:
        """One pair, the engine first in every second one."""
        order = (eager, compiled) if known % 2 else (compiled, eager)
        took = {}
        for call in order:
            # In the user's calls the other one's threads do not spin.
            clock.wait_for_idle_threads()
            with faults.of(1) if call is eager else contextlib.nullcontext():
                took[call] = self._seconds(call, args)
        return took[compiled], took[eager]

    def _seconds(self, call: Call, args: Sequence[Any]) -> float:
        return clock.seconds_per_call(lambda: call(*args), 1, self._wait)


def _why_not(entry: GraphEntry, graph: GraphModule, args: Sequence[Any]) -> str:
    """Why a graph is not called again; empty where it can be."""
    cuda = any(isinstance(each, torch.Tensor) and each.is_cuda for each in args)
    engine = entry.backend.partition(":")[0]
    if engine not in registry.OURS or engine in (_REPLAYING if cuda else _NOT_COMPARED):
        return f"graphs of {engine} are not called again"
    # An engine that holds weights would take copies of them for new ones.
    parts = entry.journal.partitions
    if entry.mutates and (held_tensors(graph) or any(part.frozen for part in parts.values())):
        return "a graph changes tensors in place, so it is not called again"
    if not all(map(effects.is_torchs_own, graph.graph.nodes)):
        return "a graph calls operators that are not torch's, so it is not called again"
    return ""


@contextlib.contextmanager
def _without_effects(entry: GraphEntry, args: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Arguments for calls of a graph in the block, which leave those given and generators alone.

    Raises ``ValueError`` where they cannot be copied.
    """
    state = TorchState() if entry.draws else None
    copies = list(map(without_history, args)) if entry.is_trained else args
    if entry.mutates:
        copies = Undo(args, draws=False).copies() or []
    for copy, each in zip(copies, args, strict=True):
        if isinstance(each, torch.Tensor) and each.requires_grad and copy is not each:
            copy.requires_grad_()
    try:
        yield copies
    finally:
        if state is not None:
            state.restore()


def _enough(pairs: Sequence[Pair]) -> bool:
    short = pairs and sum(pairs[-1]) < LEAD_IN_SECONDS
    return len(pairs) >= (SHORT_PAIRS if short else MOST_PAIRS)
