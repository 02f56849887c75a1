"""One partition at run time: its engines, the check of each, and eager whenever they fail."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.fx import GraphModule

from dynamo_ext.backends import calibration, crash_records, fork_safety, precision
from dynamo_ext.backends.base import RunThisCallEagerlyError, StayEager, fact
from dynamo_ext.backends.compile_context import CompileContext
from dynamo_ext.backends.pipeline.calls import shape_limit
from dynamo_ext.backends.pipeline.calls.engine_check import EngineCheck
from dynamo_ext.backends.pipeline.calls.engines import Engine, Engines
from dynamo_ext.backends.pipeline.calls.graph_call import RUN_FAILURES
from dynamo_ext.backends.pipeline.calls.weight_sets import WeightSet
from dynamo_ext.backends.pipeline.memory_format import relaxed
from dynamo_ext.interruptions import failures
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Partition
from dynamo_ext.records.report import FallbackStage
from dynamo_ext.timing import first_run
from dynamo_ext.torch_private import dispatch

_CALIBRATE = (
    "The data may leave the ranges of those that it was calibrated on. Calibrate on such data, "
    "too, before it is compiled again."
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
        self._engines = Engines(graph, context, weights)
        self._check = EngineCheck(self._relaxed, context, self._engines)
        self._failures = 0
        self._dead = self._late = ""
        self._untold: str | None = None
        if runtime := fact(context.backend, "fork_unsafe_runtime"):
            fork_safety.stay_behind(self, runtime)

    def prepare(self) -> bool:
        """Lower now, at compile time, where shapes are known; false where that failed.

        Where calls calibrate, the first one after them lowers; where the seconds for a first run
        are used up, the first one that has some.
        """
        constants = next(iter(self._engines.sets.live), self._engines.unfrozen)
        later = self._context.precision == "int8" and calibration.is_active()
        later = later and self._engines.takes_ranges(constants)
        if not (later or self._engines.per_shape or self._is_late()):
            self._engine((), constants)
        self._record()
        return not self._dead

    def call(self, args: Sequence[Any]) -> Sequence[Any]:
        """Run the partition: in an engine where one is trusted, and eagerly where it fails."""
        engines = self._engines
        fast = engines.unfrozen.fast_path
        for each in engines.sets.live:
            if each.watch.fresh(args):
                fast = each.fast_path
                break
        if fast is not None:
            run, select = fast
            try:
                return run(*select(args))
            except failures() as error:  # whatever it is, eager takes over
                return self._failed(error, args)
        return self._cold(args)

    def _cold(self, args: Sequence[Any]) -> Sequence[Any]:
        if self._untold is not None:
            remedy, self._untold = self._untold, None
            self._note("unavailable", message=self._dead, remedy=remedy)
            self._record()
        # Dynamo guards on a tensor's class: after one call with real tensors no fake ones come.
        if self._dead or (not self._engines.proven() and any(map(dispatch.is_fake, args))):
            return self._eager(*args)
        with dispatch.outside_modes():
            constants = self._engines.constants(args)
            engine = self._engines.known.get(self._engines.key(args, constants))
            if engine is None or not engine.trusted:
                if self._is_late(built=engine is not None):
                    return self._eager(*args)
                return self._first(args, constants)
            run, select = engine.fast_path()
            try:
                return run(*select(args))
            except failures() as error:
                return self._failed(error, args)

    def _first(self, args: Sequence[Any], constants: WeightSet) -> Sequence[Any]:
        """A call of an engine that is not trusted yet: built where there is none, and checked."""
        with first_run.current().working():
            # An engine from disk loads meanwhile.
            verifies = self._context.options.get("verify", True)
            expected = self._eager(*args) if verifies else None
            engine = self._engine(args, constants)
            if engine is not None and not self._engines.loaded(engine):
                engine = self._engine(args, constants)
            if engine is None:
                return self._eager(*args) if expected is None else expected
            try:
                with crash_records.during(self._context.attempt, "first running"):
                    outputs = engine.first_call(args)
            except failures() as error:
                return self._failed(error, args)
            if expected is not None:
                found = self._check.trusted(args, constants, (engine, outputs), expected)
                if isinstance(found, str):
                    remedy = "" if self._context.precision == FULL else precision.REMEDY
                    remedy = _CALIBRATE if engine.doubted else remedy
                    self._die("verify", message=found, remedy=remedy)
                    return expected
                engine, outputs = found
                outputs = engine.lay_out(outputs, expected)
            # Another thread may have found it wrong meanwhile.
            if not self._dead:
                self._engines.trust(engine, args, constants)
                self._record()
            return outputs

    def _is_late(self, *, built: bool = False) -> bool:
        """Whether eager is to run this call, since nothing more is to be built or checked now."""
        if built and first_run.current().late_checks:
            return False
        self._late = self._context.journal.late("partition", self.name)
        if self._late:
            self._record()
        return bool(self._late)

    def _engine(self, args: Sequence[Any], constants: WeightSet) -> Engine | None:
        """The engine for a call, built where there is none; ``None`` where eager is to run it."""
        engines = self._engines
        calibrates = self._context.precision == "int8" and calibration.is_active()
        if calibrates and engines.calibrate(args, constants):
            return None
        key = engines.key(args, constants)
        if key in engines.known:
            return engines.known[key]
        if engines.per_shape and len(engines.known) >= shape_limit.MOST_SHAPES:
            self._note("run", message=shape_limit.too_many(), remedy=shape_limit.REMEDY)
            return None
        try:
            engine = engines.build(args, constants, self._check.kept)
        except StayEager as decision:
            message = decision.reason or "The backend leaves it to eager."
            remedy, harmless = decision.remedy, decision.harmless
            # Weights or a shape that came later, without calls to calibrate it, ends no engine.
            leave = self._note if engines.built else self._die
            leave("unsupported", message=message, remedy=remedy, harmless=harmless)
            return None
        except failures() as error:  # lowering may raise anything
            self._die("lower", error=error)
            return None
        self._record()
        return engine

    def _failed(self, error: Exception, args: Sequence[Any]) -> Sequence[Any]:
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

    def _die(self, stage: FallbackStage, **facts: Any) -> None:
        """Run in eager from now on; ``facts`` are those of a fallback."""
        error = facts.get("error")
        self._dead = facts.get("message") or f"{type(error).__name__}: {error}"
        self._engines.clear()
        self._check.forget_kept()
        self._note(stage, **facts)
        self._record()

    def _note(self, stage: FallbackStage, **facts: Any) -> None:
        operator = str(getattr(facts.get("error"), "operator", ""))
        self._context.journal.add_fallback(
            stage, "partition", partition=self.name, operator=operator, **facts
        )

    def _record(self) -> None:
        if self._context.precision != FULL:
            self._context.journal.lowered[self.name] = self._engines.lowered
        self._context.journal.partitions[self.name] = replace(
            self._known,
            engine="eager" if self._dead or self._late else self._known.engine,
            reason=self._dead or self._late,
            frozen=self._engines.frozen,
            calibrated=self._engines.calibrated,
            lower_seconds=self._engines.seconds,
            engines_built=self._engines.built,
            from_disk=self._engines.from_disk,
        )
