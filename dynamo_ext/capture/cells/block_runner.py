"""Runs blocks of a cell under Dynamo: whole where they can be captured so, else part by part."""

import contextlib
import functools
import types
from dataclasses import dataclass, field
from typing import Any

from dynamo_ext.capture.cells.turn_trial import Trials, TurnTrial, carries_gradients
from dynamo_ext.capture.code.block import (
    Block,
    ControlFlow,
    FinishedError,
    SplitBlockError,
    module_function,
)
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.tensor_reachability import reaches_tensors
from dynamo_ext.capture.listen import run_log
from dynamo_ext.capture.listen.tracer import Tracer
from dynamo_ext.capture.torch_private import frame_eval, regions, traced_frames

_LOOKS = 3
"""A turn may read a tensor that an earlier one has bound; after so many none will come."""


@dataclass
class Stepper:
    """One run of a cell's blocks in a namespace; ``region`` keeps its compiled code apart.

    ``names`` are Dynamo's own in the namespace. ``trials``: turns of loops that are not faster
    captured stay Python.
    """

    tracer: Tracer
    namespace: dict[str, Any]
    names: HiddenNames
    region: int | None = None
    trials: Trials | None = None
    _functions: dict[Block, types.FunctionType] = field(default_factory=dict)
    _python: dict[int, types.FunctionType] = field(default_factory=dict)
    _looks: dict[Block, int] = field(default_factory=dict)

    def run(self, block: Block) -> Any:
        """Run a block's function; its value."""
        if block.parts and not self.tracer.fullgraph:
            return self._parts(block)
        if block.plain:
            return self._under(module_function(block.code, self.namespace))
        function = self._functions.get(block)
        if function is None:
            traced_frames.always_trace(block.code)
            function = types.FunctionType(block.code, self.namespace)
            self._functions[block] = function
        try:
            return self._under(function)
        except SplitBlockError as why:
            # One of another block comes from within this one, which must not run a second time.
            if why.block is not block:
                raise
        except FinishedError as done:
            if done.block is not block:
                raise
            return done.value
        # Outside of the handler: an error from here on has no other as its context.
        return self.run(block)

    def _parts(self, block: Block) -> Any:
        if block.condition_breaks and (run := run_log.active_run()) is not None:
            run.condition_breaks.update(dict.fromkeys(block.condition_breaks))
        value = None
        for part in block.parts:
            value = self._step(part) if isinstance(part, Block) else self._drive(part)
            if value is not None:
                break
        return value

    def _step(self, block: Block) -> Any:
        """Run a part, as plain Python where it has nothing to do with tensors."""
        if block.parts or block in self._functions:
            return self.run(block)
        looks = self._looks[block] = self._looks.get(block, 0) + 1
        if looks <= _LOOKS and reaches_tensors(block.code, self.namespace):
            return self.run(block)
        return self._in_python(block.code)()

    def _in_python(self, code: types.CodeType) -> types.FunctionType:
        """Code of the cell as Python runs it, and all that it calls."""
        function = self._python.get(id(code))
        if function is None:
            function = self._python[id(code)] = module_function(code, self.namespace)
        return function

    def _drive(self, compound: ControlFlow) -> Any:
        function = types.FunctionType(compound.header_code, self.namespace)
        call, suites, step = frame_eval.call_under, compound.suites, self._step
        trial = None
        if self.trials is not None and compound.whole is not None:
            trial = self.trials.of_loop(compound.line)
            if trial.is_python:
                value = trial.whole(self._in_python(compound.whole))
                self._note(trial)
                return value
            step = functools.partial(self._turn, trial, suites[0])
        with self.trials.during(trial) if self.trials and trial else contextlib.nullcontext():
            # Dynamo has no business with our own frames.
            value = self._under(function, lambda number: call(None, step, suites[number]))
        if trial is not None and trial.is_python is not None:
            self._note(trial)
        return value

    def _turn(self, trial: TurnTrial, body: Block, suite: Block) -> Any:
        step = functools.partial(self._step, suite)
        open_ended = trial.is_python is None and carries_gradients(suite.code, self.namespace)
        if suite is not body or open_ended:
            return step()
        return trial.run(step, self._in_python(suite.code))

    @staticmethod
    def _note(trial: TurnTrial) -> None:
        if (run := run_log.active_run()) is not None:
            turns = trial.as_record()
            run.turns[turns.line] = turns
            if trial.is_python:
                run.fallbacks[trial.as_fallback()] = None

    def _under(self, function: types.FunctionType, *args: Any) -> Any:
        callback = self.tracer.callback
        # The cell itself may have set it since it began.
        run_log.note_stance()
        if self.region is None:
            return frame_eval.call_under(callback, function, *args)
        return regions.call_in_region(self.region, callback, function, *args)
