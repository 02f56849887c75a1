"""One partition at run time: its engines, the check of each, and eager whenever they fail."""

from __future__ import annotations

import operator
import os
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from dynamo_ext.backends import forks, torch_private, verify
from dynamo_ext.backends.base import StayEager
from dynamo_ext.backends.freeze import frozen
from dynamo_ext.backends.layout import expected_orders, in_layout, order_of
from dynamo_ext.backends.specialise import shape_key, specialised
from dynamo_ext.backends.weight_sets import WeightSets
from dynamo_ext.records import FallbackStage, Partition

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import torch
    from torch.fx import GraphModule

    from dynamo_ext.backends.base import Backend, CompiledFn
    from dynamo_ext.backends.journal import Journal
    from dynamo_ext.backends.weight_sets import WeightSet

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
class Setting:
    """What the runners of one graph share."""

    backend: Backend
    options: Mapping[str, Any]
    journal: Journal


class Runner:
    """A partition as a callable: ``call(args)`` takes a sequence and gives the outputs.

    Parameters
    ----------
    record
        What is known of the partition before it is lowered.
    graph
        The partition: placeholders in, a tuple of computed tensors out. It is also what runs
        whenever an engine cannot.
    setting
        Backend, options and journal.
    weights
        Positions of placeholders to real parameters and buffers that may become constants.
    """

    def __init__(
        self,
        record: Partition,
        graph: GraphModule,
        setting: Setting,
        *,
        weights: Mapping[int, torch.Tensor],
    ) -> None:
        import torch

        self.name = record.name
        self._known = record
        self._graph = graph
        self._eager: Callable[..., Sequence[Any]] = graph.forward
        self._setting = setting
        symbolic = any(torch_private.is_symbolic(n.meta.get("val")) for n in graph.graph.nodes)
        self._per_shape = symbolic and not getattr(setting.backend, "dynamic_shapes", False)
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
        # The set of the last call, in one attribute: another thread may put its own here meanwhile.
        self._current = self._sets.first
        used = [i for i in range(len(placeholders)) if i not in self._unused]
        self._pick_thawed = _picker(used, len(placeholders))
        self._pick = _picker([i for i in used if i not in self._weights], len(placeholders))
        self._engines: dict[tuple[Any, ...], _Engine | None] = {}
        self._hot_thawed: Callable[[Sequence[Any]], Sequence[Any]] | None = None
        self._failures = 0
        self._dead = ""
        self._untold: str | None = None
        self._built = 0
        self._process = os.getpid()
        self._seconds = 0.0
        if runtime := getattr(setting.backend, "forkless", ""):
            forks.stay_behind(self, runtime)

    def prepare(self) -> bool:
        """Lower now, at compile time, where shapes are known; false where that failed."""
        if not self._per_shape:
            self._engine((), self._sets.first)
        self._record()
        return not self._dead

    def call(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run the partition: in an engine where one is trusted, and eagerly where it fails."""
        current = self._current
        if current is None:
            hot = self._hot_thawed
        elif current.watch.fresh(args):
            hot = current.hot
        else:
            hot = self._elsewhere(args, current)
        if hot is not None:
            try:
                return hot(args)
            except Exception as error:  # noqa: BLE001 - whatever it is, eager takes over
                return self._failed(error, args)
        return self._cold(args)

    def _elsewhere(
        self, args: Sequence[Any], current: WeightSet
    ) -> Callable[[Sequence[Any]], Sequence[Any]] | None:
        """What runs with other weights than the last call's."""
        found = self._sets.holding(args, besides=current)
        if found is None:
            return self._hot_thawed
        self._current = found
        return found.hot

    def _constants(self, args: Sequence[Any]) -> WeightSet | None:
        """The weights to make constants of for a call; none where they are to be inputs."""
        found = self._sets.holding(args)
        if found is None and self._hot_thawed is None:
            found = self._sets.new(args)
        return found

    def _release(self, gone: WeightSet) -> None:
        """Let an engine's memory go with the model whose weights it has."""
        if self._current is gone:
            self._current = None
        gone.hot = None
        if os.getpid() != self._process:
            # A forked process that released an engine might wait for its threads.
            return
        for key in [key for key in list(self._engines) if key[0] == gone.number]:
            del self._engines[key]

    def _cold(self, args: Sequence[Any]) -> Sequence[Any]:
        if self._dead:
            self._tell()
        # Dynamo guards on a tensor's class: after one call with real tensors no fake ones come.
        if self._dead or (not self._proven() and any(map(torch_private.is_fake, args))):
            return self._eager(*args)
        with torch_private.outside_modes():
            constants = self._constants(args)
            key = shape_key(args) if self._per_shape else ()
            engine = self._engine(key, constants, args)
            if engine is None:
                return self._eager(*args)
            pick = self._pick if constants else self._pick_thawed
            try:
                outputs = in_layout(engine.run(*(pick(args) if pick else args)), engine.orders)
            except Exception as error:  # noqa: BLE001
                return self._failed(error, args)
            if engine.trusted:
                return outputs
            if self._setting.options.get("verify", True):
                expected = self._eager(*args)
                wrong = verify.disagreement(outputs, expected)
                if wrong and not self._as_good(args, outputs, expected):
                    self._die("verify", message=wrong)
                    return expected
                for position, (got, want) in enumerate(zip(outputs, expected, strict=True)):
                    if order_of(got) != order_of(want):
                        engine.orders[position] = order_of(want)
                outputs = in_layout(outputs, engine.orders)
            self._trust(engine, constants)
            return outputs

    def _proven(self) -> bool:
        return any(engine is not None and engine.trusted for engine in list(self._engines.values()))

    def _as_good(self, args: Sequence[Any], found: Sequence[Any], expected: Sequence[Any]) -> bool:
        from dynamo_ext.backends.exact import as_good_as_eager

        return as_good_as_eager(self._graph, args, found, expected)

    def _trust(self, engine: _Engine, constants: WeightSet | None) -> None:
        engine.trusted = True
        if self._per_shape:
            return
        run, orders = engine.run, engine.orders
        pick = self._pick if constants else self._pick_thawed
        if orders:
            hot = _ordered_call(run, pick, orders)
        elif pick is not None:
            hot = _picked_call(run, pick)
        else:
            hot = _plain_call(run)
        if constants is not None:
            constants.trust(hot)
            self._current = constants
        else:
            self._hot_thawed = hot

    def _engine(
        self, key: tuple[Any, ...], constants: WeightSet | None, args: Sequence[Any] = ()
    ) -> _Engine | None:
        known = (constants.number if constants else None, *key)
        if known in self._engines:
            return self._engines[known]
        if self._per_shape and len(self._engines) >= MOST_SHAPES:
            message = f"{MOST_SHAPES} shapes have engines of their own; more run eagerly."
            remedy = "Pad the inputs to fewer shapes."
            self._note("run", message=message, remedy=remedy)
            return None
        self._engines[known] = None
        start = time.perf_counter()
        try:
            engine = self._lower(args, constants)
        except StayEager as decision:
            message = decision.reason or "The backend leaves it to eager."
            self._die("unsupported", message=message, remedy=decision.remedy)
            return None
        except Exception as error:  # noqa: BLE001 - lowering may raise anything
            self._die("lower", error=error)
            return None
        self._seconds += time.perf_counter() - start
        self._built += 1
        self._engines[known] = engine
        self._record()
        return engine

    def _lower(self, args: Sequence[Any], constants: WeightSet | None) -> _Engine:
        graph = specialised(self._graph, args) if self._per_shape else self._graph
        with torch_private.outside_modes():
            graph = frozen(graph, constants.weights if constants else {}, self._unused)
        examples = [n.meta.get("val") for n in graph.graph.nodes if n.op == "placeholder"]
        orders = expected_orders(graph)
        setting = self._setting
        with torch_private.outside_modes():
            run = setting.backend.lower(graph, examples, setting.options)
        return _Engine(run, orders)

    def _failed(self, error: Exception, args: Sequence[Any]) -> Sequence[Any]:
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
            self._current = self._hot_thawed = None

    def _tell(self) -> None:
        if self._untold is not None:
            remedy, self._untold = self._untold, None
            self._note("unavailable", message=self._dead, remedy=remedy)
            self._record()

    def _die(
        self,
        stage: FallbackStage,
        *,
        error: Exception | None = None,
        message: str = "",
        remedy: str = "",
    ) -> None:
        self._dead = message or f"{type(error).__name__}: {error}"
        self._current = self._hot_thawed = None
        self._engines.clear()
        self._weights.clear()
        self._sets.clear()
        self._note(stage, error=error, message=message, remedy=remedy)
        self._record()

    def _note(
        self,
        stage: FallbackStage,
        *,
        error: Exception | None = None,
        message: str = "",
        remedy: str = "",
    ) -> None:
        self._setting.journal.add_fallback(
            stage,
            "partition",
            partition=self.name,
            operator=str(getattr(error, "operator", "")),
            error=error,
            message=message,
            remedy=remedy,
        )

    def _record(self) -> None:
        self._setting.journal.add_partition(
            replace(
                self._known,
                engine="eager" if self._dead else self._known.engine,
                reason=self._dead,
                frozen=len(self._weights),
                lower_seconds=self._seconds,
                engines_built=self._built,
            )
        )


def _picker(
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


def _plain_call(run: CompiledFn) -> Callable[[Sequence[Any]], Sequence[Any]]:
    return lambda args: run(*args)


def _picked_call(
    run: CompiledFn, pick: Callable[[Sequence[Any]], tuple[Any, ...]]
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    return lambda args: run(*pick(args))


def _ordered_call(
    run: CompiledFn,
    pick: Callable[[Sequence[Any]], tuple[Any, ...]] | None,
    orders: dict[int, tuple[int, ...]],
) -> Callable[[Sequence[Any]], Sequence[Any]]:
    if pick is None:
        return lambda args: in_layout(run(*args), orders)
    return lambda args: in_layout(run(*pick(args)), orders)
