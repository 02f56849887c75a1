"""A cell compared in its own notebook: candidates, progress, silence."""

import argparse
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from dynamo_ext.api.compare import ComparisonResult
from dynamo_ext.capture.cells.dynamo_globals import HiddenNames
from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.errors import UnknownBackendError
from dynamo_ext.magics.accuracy_check import bound_of, other_inputs
from dynamo_ext.magics.cell_source import CellText
from dynamo_ext.magics.hidden_displays import nothing_displayed
from dynamo_ext.magics.resolve_backend import executor_of
from dynamo_ext.measure.candidates import Candidate, candidates_of, refuse_useless_inputs
from dynamo_ext.measure.compare import compare_workload
from dynamo_ext.measure.settings import OPTIONS, Settings
from dynamo_ext.measure.workload import CellWorkload
from dynamo_ext.numerics.accuracy_bound import AccuracyBound
from dynamo_ext.records.common import CodeBlock


def compare_cell(
    shell: InteractiveShell,
    text: CellText,
    program: CellProgram,
    names: HiddenNames,
    arguments: argparse.Namespace,
) -> ComparisonResult:
    """Measure a cell; the namespace is as before when this returns.

    Raises ``UnknownBackendError`` or ``OptionError`` before it runs, and what the cell raises.
    """
    namespace = shell.user_ns
    asked = {each.name: getattr(arguments, each.name) for each in OPTIONS}
    bound = bound_of(namespace, arguments.accuracy, arguments.metric)
    candidates = _candidates(namespace, arguments, bound)
    inputs = other_inputs(namespace, arguments.check_on, program)
    refuse_useless_inputs(candidates, inputs)
    settings = Settings.of(bound, inputs, **asked)
    title = f"Cell In[{text.number}]"
    cell = CodeBlock(title, program.filename, 1, text.source)
    executor = executor_of(arguments.executor, namespace) if arguments.executor else None
    if arguments.isolate or executor is not None:
        from dynamo_ext.measure.remote.compare import CellTask, compare_apart

        task = CellTask.of(program, namespace, title, cell)
        return ComparisonResult(compare_apart(task, candidates, settings, executor))
    workload = CellWorkload(
        program, namespace, names, title=title, train=arguments.train, silence=nothing_displayed
    )
    return ComparisonResult(compare_workload(workload, candidates, settings, cell=cell))


def _candidates(
    namespace: dict[str, Any], arguments: argparse.Namespace, bound: AccuracyBound | None
) -> list[Candidate]:
    rows: dict[str, Any] = {}
    for name in arguments.backends:
        rows[name] = name
        try:
            candidates_of([name])
        except UnknownBackendError:
            if not name.isidentifier() or name not in namespace:
                raise
            rows[name] = namespace[name]
    return candidates_of(rows, arguments.opt, baseline=arguments.baseline, bound=bound)
