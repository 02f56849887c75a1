"""One partition at run time: its engines, the check of each, and eager whenever they fail."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule, Node

from dynamo_ext.backends import calibration, crash_records, fork_safety, precision
from dynamo_ext.backends.base import RunThisCallEagerlyError, StayEager, fact
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.pipeline import compile_timeout, sensitive_products
from dynamo_ext.backends.pipeline.engines import Engine, Engines
from dynamo_ext.backends.pipeline.graph_call import RUN_FAILURES
from dynamo_ext.backends.pipeline.memory_format import relaxed
from dynamo_ext.backends.pipeline.weight_sets import WeightSet
from dynamo_ext.backends.support import ties
from dynamo_ext.backends.support.single_op import is_convolution
from dynamo_ext.interruptions import pass_on
from dynamo_ext.numerics import higher_precision, lowered_precision
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import KeptOperation, Partition
from dynamo_ext.records.report import FallbackStage
from dynamo_ext.torch_private import dispatch, fx_nodes

MOST_SHAPES = 16
"""Engines of fixed shapes that one partition may build; more shapes run eagerly."""

_CALIBRATE = (
    "This call's data leave the ranges that calls had before: calibrate on data like these."
)


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
        self.name = record.name
        self._known = record
        self._relaxed = relaxed(graph)
        self._eager: Callable[..., Sequence[Any]] = self._relaxed.forward
        self._context = context
        self._precision = precision.of(context.options)
        self._kept: list[str] | None = None
        self._kept_operations: list[str] = []
        self._engines = Engines(graph, context, weights)
        self._failures = 0
        self._dead = ""
        self._untold: str | None = None
        if runtime := fact(context.backend, "fork_unsafe_runtime"):
            fork_safety.stay_behind(self, runtime)

    def prepare(self) -> bool:
        """Lower now, at compile time, where shapes are known; false where that failed.

        Where calls calibrate, the first one after them lowers.
        """
        constants = next(iter(self._engines.sets.live), None)
        later = self._precision == "int8" and calibration.is_active()
        later = later and self._engines.takes_ranges(constants)
        if not (later or self._engines.per_shape):
            if late := compile_timeout.used_up():
                self._die("lower", message=late, remedy=compile_timeout.REMEDY)
            else:
                self._engine((), constants)
        self._record()
        return not self._dead

    def call(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run the partition: in an engine where one is trusted, and eagerly where it fails."""
        engines = self._engines
        run = engines.fast_unfrozen
        for each in engines.sets.live:
            if each.watch.fresh(args):
                run = each.fast_path
                break
        if run is not None:
            try:
                return run(args)
            except Exception as error:  # noqa: BLE001 - whatever it is, eager takes over
                return self._failed(error, args)
        return self._cold(args)

    def _cold(self, args: Sequence[Any]) -> Sequence[Any]:
        if self._dead:
            self._tell()
        # Dynamo guards on a tensor's class: after one call with real tensors no fake ones come.
        if self._dead or (not self._engines.proven() and any(map(dispatch.is_fake, args))):
            return self._eager(*args)
        with dispatch.outside_modes():
            constants = self._engines.constants(args)
            engine = self._engine(args, constants)
            if engine is None:
                return self._eager(*args)
            attempt = None if engine.trusted else self._context.attempt
            try:
                with crash_records.during(attempt, "first running"):
                    outputs = engine.call(args) if engine.trusted else engine.first_call(args)
            except Exception as error:  # noqa: BLE001
                return self._failed(error, args)
            if engine.trusted:
                return outputs
            if self._context.options.get("verify", True):
                expected = self._eager(*args)
                checked = self._checked(args, constants, engine, outputs, expected)
                if checked is None:
                    return expected
                engine, outputs = checked
                outputs = engine.lay_out(outputs, expected)
            self._engines.trust(engine, args, constants)
            self._record()
            return outputs

    def _checked(
        self,
        args: Sequence[Any],
        constants: WeightSet | None,
        engine: Engine,
        outputs: Sequence[Any],
        expected: Sequence[Any],
    ) -> tuple[Engine, Sequence[Any]] | None:
        """The engine to trust, and what it gives; ``None`` where eager runs from now on."""
        right = self._right(args, expected)
        wrong, missed = self._wrong(args, outputs, right), self._context.missed(outputs, right)
        again = None
        if engine.doubted:
            wrong = wrong or missed
        elif wrong or missed:
            again = self._again(args, constants, outputs, right)
        if again is None and wrong:
            self._die("verify", message=wrong, remedy=_CALIBRATE if engine.doubted else "")
            return None
        return again or (engine, outputs)

    def _right(self, args: Sequence[Any], expected: Sequence[Any]) -> Sequence[Any]:
        """What results are compared with: in a lower precision, what a higher one gives."""
        if self._precision == FULL:
            return expected
        return higher_precision.exact(self._relaxed, args, expected)

    def _wrong(self, args: Sequence[Any], outputs: Sequence[Any], right: Sequence[Any]) -> str:
        """What an engine gives that is too far from what it should give, as one sentence."""
        if self._precision == FULL:
            return ties.disagreement(self._relaxed, args, outputs, right, rounding=True)
        return lowered_precision.disagreement(outputs, right, self._precision)

    def _again(
        self,
        args: Sequence[Any],
        constants: WeightSet | None,
        outputs: Sequence[Any],
        exact: Sequence[Any],
    ) -> tuple[Engine, Sequence[Any]] | None:
        """An engine in int8 that is right with products kept in float32, and what it gives.

        ``None`` where there is none. Later engines of the partition keep the same products.
        """
        if self._precision != "int8" or self._kept is not None:
            return None
        self._kept = []
        errors: dict[int, float] = {}
        made: list[tuple[Engine, Sequence[Any]]] = []

        def tried(count: int) -> bool:
            engine = self._engines.build(args, constants, [each.name for each in ranked[:count]])
            with crash_records.during(self._context.attempt, "first running"):
                outputs = engine.first_call(args)
            made[:] = [(engine, outputs)]
            errors[count] = lowered_precision.largest_error(outputs, exact)
            return not (self._wrong(args, outputs, exact) or self._context.missed(outputs, exact))

        try:
            errors[0] = lowered_precision.largest_error(outputs, exact)
            products = self._engines.products(constants)
            if not self._engines.calibrated:
                products = [n for n in products if not is_convolution(n)]
            ranked = sensitive_products.ranked(
                self._relaxed, [node.name for node in products], args
            )
            fewest = sensitive_products.fewest(len(ranked), tried)
        except Exception as error:  # noqa: BLE001 - the partition is eager's then
            pass_on(error)
            return None
        if not fewest:
            return None
        self._keep(ranked[:fewest], errors)
        return made[0]

    def _keep(self, kept: Sequence[Node], errors: Mapping[int, float]) -> None:
        """Have later engines keep these products; ``errors`` are by how many of them were kept."""
        self._kept = [node.name for node in kept]
        for position, node in enumerate(kept):
            name = fx_nodes.captured_name(node) or node.name
            self._kept_operations.append(name)
            without = errors[max(count for count in errors if count <= position)]
            most = 0.0 if self._context.bound else lowered_precision.BOUNDS[self._precision]
            to_blame = most < without < math.inf
            self._context.journal.kept[name] = KeptOperation(
                name, without if to_blame else None, errors[len(kept)]
            )

    def _engine(self, args: Sequence[Any], constants: WeightSet | None) -> Engine | None:
        """The engine for a call, built where there is none; ``None`` where eager is to run it."""
        engines = self._engines
        calibrates = self._precision == "int8" and calibration.is_active()
        if calibrates and engines.calibrate(args, constants):
            return None
        key = engines.key(args, constants)
        if key in engines.known:
            return engines.known[key]
        if engines.per_shape and len(engines.known) >= MOST_SHAPES:
            message = (
                f"{MOST_SHAPES} input shapes have been compiled, which is the limit; "
                "other shapes run eagerly."
            )
            self._note("run", message=message, remedy="Pad the inputs to fewer shapes.")
            return None
        try:
            engine = engines.build(args, constants, self._kept or ())
        except StayEager as decision:
            message = decision.reason or "The backend leaves it to eager."
            remedy, harmless = decision.remedy, decision.harmless
            # Weights or a shape that came later, without calls to calibrate it, ends no engine.
            leave = self._note if engines.built else self._die
            leave("unsupported", message=message, remedy=remedy, harmless=harmless)
            return None
        except Exception as error:  # noqa: BLE001 - lowering may raise anything
            pass_on(error)
            self._die("lower", error=error)
            return None
        self._record()
        return engine

    def _failed(self, error: Exception, args: Sequence[Any]) -> Sequence[Any]:
        pass_on(error)
        # Eager first: where it raises too, the fault is the user's, and theirs to see.
        outputs = self._eager(*args)
        self._failures += not isinstance(error, RunThisCallEagerlyError)
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
            self._engines.leave()

    def _tell(self) -> None:
        if self._untold is not None:
            remedy, self._untold = self._untold, None
            self._note("unavailable", message=self._dead, remedy=remedy)
            self._record()

    def _die(self, stage: FallbackStage, **facts: Any) -> None:
        """Run in eager from now on; ``facts`` are those of a fallback."""
        error = facts.get("error")
        self._dead = facts.get("message") or f"{type(error).__name__}: {error}"
        self._engines.clear()
        for name in self._kept_operations:
            self._context.journal.kept.pop(name, None)
        self._note(stage, **facts)
        self._record()

    def _note(self, stage: FallbackStage, **facts: Any) -> None:
        operator = str(getattr(facts.get("error"), "operator", ""))
        self._context.journal.add_fallback(
            stage, "partition", partition=self.name, operator=operator, **facts
        )

    def _record(self) -> None:
        self._context.journal.lowered[self.name] = self._engines.lowered
        self._context.journal.partitions[self.name] = replace(
            self._known,
            engine="eager" if self._dead else self._known.engine,
            reason=self._dead,
            frozen=self._engines.frozen,
            calibrated=self._engines.calibrated,
            lower_seconds=self._engines.seconds,
            engines_built=self._engines.built,
        )
