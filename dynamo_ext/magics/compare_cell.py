"""A cell compared in its own notebook: candidates, progress, silence."""

import argparse
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

from dynamo_ext.api.compare import ComparisonResult
from dynamo_ext.backends import registry
from dynamo_ext.capture.cells.program import CellProgram
from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.errors import UnknownBackendError
from dynamo_ext.magics.accuracy_check import bound_of, other_inputs
from dynamo_ext.magics.cell_source import CellText
from dynamo_ext.magics.hidden_displays import nothing_displayed
from dynamo_ext.measure.candidates import candidates_of
from dynamo_ext.measure.remote.compare import compare_anywhere
from dynamo_ext.measure.settings import OPTIONS, Settings
from dynamo_ext.measure.workload import CellWorkload
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
    inputs = other_inputs(namespace, arguments.check_on, program)
    settings = Settings.of(bound, inputs, **asked)
    rows = _rows(namespace, arguments.backends or registry.racing_here())
    candidates = candidates_of(rows, arguments.opt, settings)
    title = f"Cell In[{text.number}]"
    workload = CellWorkload(
        program, namespace, names, title=title, train=settings.train, silence=nothing_displayed
    )
    workload.cell = CodeBlock(title, program.filename, 1, text.source)
    return ComparisonResult(compare_anywhere(workload, candidates, settings))


def _rows(namespace: dict[str, Any], names: list[str]) -> dict[str, Any]:
    """Candidates by their names, which may be those of variables."""
    rows: dict[str, Any] = {}
    for name in names:
        rows[name] = name
        try:
            candidates_of([name])
        except UnknownBackendError:
            if not name.isidentifier() or name not in namespace:
                raise
            rows[name] = namespace[name]
    return rows
