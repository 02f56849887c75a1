"""One partition at run time: its engines, the check of each, and eager whenever they fail."""

from __future__ import annotations

import operator
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import crash_records, fork_safety
from dynamo_ext.backends.base import StayEager, fact
from dynamo_ext.backends.pipeline import compile_timeout
from dynamo_ext.backends.pipeline.freeze import frozen
from dynamo_ext.backends.pipeline.memory_format import expected_orders, in_layout, order_of, relaxed
from dynamo_ext.backends.pipeline.specialize_shapes import shape_key, specialised
from dynamo_ext.backends.pipeline.weight_sets import WeightSets
from dynamo_ext.backends.support import ties
from dynamo_ext.interruptions import Listening, pass_on
from dynamo_ext.numerics import tolerance
from dynamo_ext.records.report import FallbackStage, Partition
from dynamo_ext.torch_private import dispatch

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import Backend, CompiledFn
    from dynamo_ext.backends.crash_records import Attempt
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.backends.pipeline.weight_sets import WeightSet

RUN_FAILURES = 3
"""Failed calls after which a partition stays in eager."""

MOST_SHAPES = 16
"""Engines of fixed shapes that one partition may build; more shapes run eagerly."""


@dataclass
class _Engine:
    """A lowered form of the partition; trusted once its first results agreed with eager's."""

    run: CompiledFn
    orders: dict[int, tuple[int, ...]]
    trusted: bool = False


@dataclass
class CompileContext:
    """What the runners of one graph share."""

    backend: Backend
    options: Mapping[str, Any]
    journal: Journal
    attempt: Attempt | None = None


class Runner:
    """A partition as a callable: ``call(args)`` takes a sequence and gives the outputs.

    ``record`` is what is known of the partition before it is lowered. ``graph`` takes placeholders
    and returns a tuple of computed tensors; it runs whenever an engine cannot. ``weights`` maps
    positions of placeholders to parameters and buffers that may become constants.
    """

    def __init__(
        self,
        record: Partition,
        graph: GraphModule,
        context: CompileContext,
        *,
        weights: Mapping[int, torch.Tensor],
    ) -> None:
        import torch

        self.name = record.name
        self._known = record
        self._graph = graph
        self._relaxed = relaxed(graph)
        self._eager: Callable[..., Sequence[Any]] = self._relaxed.forward
        self._context = context
        symbolic = any(dispatch.is_symbolic(n.meta.get("val")) for n in graph.graph.nodes)
        self._per_shape = symbolic and not fact(context.backend, "dynamic_shapes")
        placeholders = [n for n in graph.graph.nodes if n.op == "placeholder"]
        # Engines see no input that nothing reads, nor sizes where each shape has its engine.
        self._unused = {
            position
            for position, node in enumerate(placeholders)
            if not node.users
            or (self._per_shape and not isinstance(node.meta.get("val"), torch.Tensor))
        }
        known = {i: weight for i, weight in weights.items() if i not in self._unused}
        self._weights = set(known)
        self._sets = WeightSets(known, self._release)
        used = [i for i in range(len(placeholders)) if i not in self._unused]
        self._select_unfrozen = _selector(used, len(placeholders))
        self._select = _selector([i for i in used if i not in self._weights], len(placeholders))
        self._engines: dict[tuple[Any, ...], _Engine | None] = {}
        self._fast_unfrozen: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._failures = 0
        self._dead = ""
        self._untold: str | None = None
        self._built = 0
        self._process = os.getpid()
        self._seconds = 0.0
        if runtime := fact(context.backend, "fork_unsafe_runtime"):
            fork_safety.stay_behind(self, runtime)

    def prepare(self) -> bool:
        """Lower now, at compile time, where shapes are known; false where that failed."""
        if not self._per_shape:
            if late := compile_timeout.used_up():
                self._die("lower", message=late, remedy=compile_timeout.REMEDY)
            else:
                self._engine((), next(iter(self._sets.live), None))
        self._record()
        return not self._dead

    def call(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run the partition: in an engine where one is trusted, and eagerly where it fails."""
        run = self._fast_unfrozen
        for each in self._sets.live:
            if each.watch.fresh(args):
                run = each.fast_path
                break
        if run is not None:
            try:
                return run(args)
            except Exception as error:  # noqa: BLE001 - whatever it is, eager takes over
                return self._failed(error, args)
        return self._cold(args)

    def _constants(self, args: Sequence[Any]) -> WeightSet | None:
        """The weights to make constants of for a call; none where they are to be inputs."""
        found = self._sets.holding(args)
        if found is None and self._fast_unfrozen is None:
            found = self._sets.new(args)
        return found

    def _release(self, gone: WeightSet) -> None:
        """Let an engine's memory go with the model whose weights it has."""
        gone.fast_path = None
        if os.getpid() != self._process:
            # A forked process that released an engine might wait for its threads.
            return
        for key in [key for key in list(self._engines) if key[0] == gone.number]:
            del self._engines[key]

    def _cold(self, args: Sequence[Any]) -> Sequence[Any]:
        if self._dead:
            self._tell()
        # Dynamo guards on a tensor's class: after one call with real tensors no fake ones come.
        if self._dead or (not self._proven() and any(map(dispatch.is_fake, args))):
            return self._eager(*args)
        with dispatch.outside_modes():
            constants = self._constants(args)
            key = shape_key(args) if self._per_shape else ()
            engine = self._engine(key, constants, args)
            if engine is None:
                return self._eager(*args)
            select = self._select if constants else self._select_unfrozen
            given = select(args) if select else args
            try:
                outputs = in_layout(self._run(engine, given), engine.orders)
            except Exception as error:  # noqa: BLE001
                return self._failed(error, args)
            if engine.trusted:
                return outputs
            if self._context.options.get("verify", True):
                expected = self._eager(*args)
                wrong = self._wrong(args, outputs, expected)
                if wrong:
                    self._die("verify", message=wrong)
                    return expected
                for position, (got, want) in enumerate(zip(outputs, expected, strict=True)):
                    if order_of(got) != order_of(want):
                        engine.orders[position] = order_of(want)
                outputs = in_layout(outputs, engine.orders)
            self._trust(engine, constants)
            return outputs

    def _run(self, engine: _Engine, args: Sequence[Any]) -> Sequence[Any]:
        if engine.trusted:
            return engine.run(*args)
        with crash_records.during(self._context.attempt, "first running"):
            return engine.run(*args)

    def _proven(self) -> bool:
        return any(engine is not None and engine.trusted for engine in list(self._engines.values()))

    def _wrong(self, args: Sequence[Any], found: Sequence[Any], expected: Sequence[Any]) -> str:
        """What is wrong with an engine's outputs, as a sentence; empty where nothing is."""
        from dynamo_ext.numerics.higher_precision import as_good_as_eager

        first = ""
        for graph, right in ties.references(self._relaxed, args, expected):
            wrong = tolerance.disagreement(found, right)
            if not wrong or as_good_as_eager(graph, args, found, right):
                return ""
            first = first or wrong
        return first

    def _trust(self, engine: _Engine, constants: WeightSet | None) -> None:
        engine.trusted = True
        if self._per_shape:
            return
        select = self._select if constants else self._select_unfrozen
        run = _fast_path(engine.run, select, engine.orders)
        if constants is not None:
            constants.fast_path = run
        else:
            self._fast_unfrozen = run

    def _engine(
        self, key: tuple[Any, ...], constants: WeightSet | None, args: Sequence[Any] = ()
    ) -> _Engine | None:
        known = (constants.number if constants else None, *key)
        if known in self._engines:
            return self._engines[known]
        if self._per_shape and len(self._engines) >= MOST_SHAPES:
            message = (
                f"{MOST_SHAPES} input shapes have been compiled, which is the limit; "
                "other shapes run eagerly."
            )
            remedy = "Pad the inputs to fewer shapes."
            self._note("run", message=message, remedy=remedy)
            return None
        self._engines[known] = None
        start = time.perf_counter()
        try:
            with Listening():
                engine = self._lower(args, constants)
        except StayEager as decision:
            message = decision.reason or "The backend leaves it to eager."
            remedy, harmless = decision.remedy, decision.harmless
            self._die("unsupported", message=message, remedy=remedy, harmless=harmless)
            return None
        except Exception as error:  # noqa: BLE001 - lowering may raise anything
            pass_on(error)
            self._die("lower", error=error)
            return None
        self._seconds += time.perf_counter() - start
        self._built += 1
        self._engines[known] = engine
        self._record()
        return engine

    def _lower(self, args: Sequence[Any], constants: WeightSet | None) -> _Engine:
        graph = specialised(self._graph, args) if self._per_shape else self._graph
        with dispatch.outside_modes():
            graph = frozen(graph, constants.weights if constants else {}, self._unused)
        examples = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
        orders = expected_orders(graph)
        context = self._context
        with dispatch.outside_modes(), crash_records.during(context.attempt, "compiling"):
            run = context.backend.lower(graph, examples, context.options)
        return _Engine(run, orders)

    def _failed(self, error: Exception, args: Sequence[Any]) -> Sequence[Any]:
        pass_on(error)
        # Eager first: where it raises too, the fault is the user's, and theirs to see.
        outputs = self._eager(*args)
        self._failures += 1
        if self._failures >= RUN_FAILURES:
            self._die("run", error=error)
        else:
            self._note("run", error=error)
        return outputs

    def leave(self, reason: str, remedy: str) -> None:
        """Run in eager from now on, and say why at the next call.

        The engines are kept: a forked process that released them might wait for their threads.
        """
        if not self._dead:
            self._dead, self._untold = reason, remedy
            self._fast_unfrozen = None
            for each in self._sets.live:
                each.fast_path = None

    def _tell(self) -> None:
        if self._untold is not None:
            remedy, self._untold = self._untold, None
            self._note("unavailable", message=self._dead, remedy=remedy)
            self._record()

    def _die(self, stage: FallbackStage, **facts: Any) -> None:
        """Run in eager from now on; ``facts`` are those of a fallback."""
        error = facts.get("error")
        self._dead = facts.get("message") or f"{type(error).__name__}: {error}"
        self._fast_unfrozen = None
        self._engines.clear()
        self._weights.clear()
        self._sets.clear()
        self._note(stage, **facts)
        self._record()

    def _note(self, stage: FallbackStage, **facts: Any) -> None:
        operator = str(getattr(facts.get("error"), "operator", ""))
        self._context.journal.add_fallback(
            stage, "partition", partition=self.name, operator=operator, **facts
        )

    def _record(self) -> None:
        self._context.journal.add_partition(
            replace(
                self._known,
                engine="eager" if self._dead else self._known.engine,
                reason=self._dead,
                frozen=len(self._weights),
                lower_seconds=self._seconds,
                engines_built=self._built,
            )
        )


def _selector(
    positions: Sequence[int], total: int
) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """What takes some of a call's arguments; ``None`` where it would take them all."""
    if len(positions) == total:
        return None
    if len(positions) > 1:
        return operator.itemgetter(*positions)
    if positions:
        only = positions[0]
        return lambda args: (args[only],)
    return lambda args: ()  # noqa: ARG005


def _fast_path(
    run: CompiledFn,
    select: Callable[[Sequence[Any]], tuple[Any, ...]] | None,
    orders: dict[int, tuple[int, ...]],
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    """A trusted engine's call, with no more steps than it needs."""
    if orders:
        return lambda args: in_layout(run(*(select(args) if select else args)), orders)
    if select:
        return lambda args: run(*select(args))
    return lambda args: run(*args)
