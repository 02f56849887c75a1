"""``--accuracy``, ``--metric`` and ``--check-on``: what they name, and the check before a run."""

import argparse
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch

from dynamo_ext.auto.backend import AutoBackend
from dynamo_ext.auto.end_to_end import Rehearsal
from dynamo_ext.backends import precision
from dynamo_ext.backends.compiler import Compiler
from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.cells.runner import CellState
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.code.tensor_reachability import names_read
from dynamo_ext.capture.listen.graph_recorder import forget_recorded
from dynamo_ext.capture.listen.tracer import Tracer
from dynamo_ext.errors import OptionError
from dynamo_ext.magics.hidden_displays import nothing_displayed
from dynamo_ext.measure.settings import Settings
from dynamo_ext.measure.workload import CellWorkload
from dynamo_ext.numerics.accuracy_bound import AccuracyBound


def bound_of(
    namespace: dict[str, Any], accuracy: str | None, name: str | None
) -> AccuracyBound | None:
    """The bound, if any; raises ``OptionError`` where it is none, or the metric no function."""
    if not accuracy:
        return None
    if name is not None and not callable(namespace.get(name)):
        message = f"--metric {name} is not a function of yours."
        raise OptionError(message, "Define it before: (result, reference) -> float.")
    return AccuracyBound.parse(accuracy, namespace[name] if name else None)


def other_inputs(
    namespace: dict[str, Any], check_on: tuple[str, str] | None, program: CellProgram
) -> tuple[dict[str, Any], ...]:
    """The values that a name gets in turn; raises ``OptionError`` where there are none."""
    if check_on is None:
        return ()
    name, listed = check_on
    values = namespace.get(listed)
    if name not in namespace or not isinstance(values, (list, tuple)) or not values:
        message = f"--check-on {name}={listed} is not a name of yours with a list of values for it."
        raise OptionError(message, "Write it as in --check-on x=batches, batches = [x1, x2].")
    if name not in {each for code in program.statement_codes for each in names_read(code)}:
        message = f"The cell does not read {name}, which --check-on changes."
        raise OptionError(message, "Name what the cell computes its results from.")
    return tuple({name: value} for value in values)


def check_before(  # noqa: PLR0913, PLR0917 - a cell, and what it runs under
    state: CellState,
    namespace: dict[str, Any],
    names: HiddenNames,
    tracer: Tracer,
    arguments: argparse.Namespace,
    traced: Callable[[Any], Tracer],
) -> Rehearsal | None:
    """The check of a cell under ``auto`` with a bound: that of its last run where it is the same.

    With other inputs, also what calibrates a backend in int8 on them: the cell then runs under the
    check's own ``tracer``, which ``traced`` makes of a compiler, since code that is compiled
    already stays as it is. Raises what ``bound_of`` and ``other_inputs`` do, and ``OptionError``
    where other inputs are for nothing.
    """
    compiler: Any = tracer.compiler.compiler if tracer.compiler is not None else None
    bound = bound_of(namespace, arguments.accuracy, arguments.metric)
    inputs = other_inputs(namespace, arguments.check_on, state.program)
    auto = getattr(compiler, "backend", None)
    trials = auto.trials if isinstance(auto, AutoBackend) else None
    if bound is None or trials is None:
        if not inputs:
            return None
        if precision.of(getattr(compiler, "options", {})) != "int8":
            message = "--check-on calibrates int8, or checks the bound of auto."
            raise OptionError(message, "Use -b auto with --accuracy, or a backend with :int8.")
    # The check holds the values, so that no other gets the number of one of them.
    values: list[object] = [id(value) for given in inputs for value in given.values()]
    if inputs:
        read = {each for code in state.program.statement_codes for each in names_read(code)}
        read = (read - set(state.program.stored_names)) & namespace.keys()
        values += [_facts(namespace[each]) for each in sorted(read)]
    key = (tracer.compiler, bound, bound and bound.function, arguments.check_on, *values)
    if state.check is None or state.check.key != key:
        if state.check is not None and state.check.settings.check_on:
            forget_recorded(state.check.tracer.compiler.compiler)
        if inputs:
            # Dynamo tells compiled code apart by the identity of the compiler.
            tracer = traced(Compiler(compiler.backend, compiler.options, compiler.availability))
        state.check = Rehearsal(
            lambda: CellWorkload(
                state.program, namespace, names, title="", silence=nothing_displayed
            ),
            tracer,
            trials,
            Settings(bound=bound, check_on=inputs),
            key,
        )
    found: Rehearsal = state.check
    return found


def _facts(value: object) -> object:
    """What of a value that a cell reads decides by which engines it runs; it is not kept alive."""
    if isinstance(value, torch.Tensor):
        return value.shape, value.dtype
    if isinstance(value, (torch.nn.Module, types.FunctionType)):
        return weakref.ref(value)
    return type(value)
