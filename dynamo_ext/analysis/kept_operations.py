"""Products that stay in float32 in graphs that are computed in int8, in words."""

from dynamo_ext.analysis.placement import operator
from dynamo_ext.formatting import place
from dynamo_ext.records.common import FULL
from dynamo_ext.records.graph import Graph, KeptOperation
from dynamo_ext.records.report import Report


def clauses(report: Report) -> tuple[str, ...]:
    """Which they are, by line or module, and what the error is without each; equal ones once."""
    called = [graph for graph in report.graphs if graph.calls]
    return tuple(dict.fromkeys(_clause(graph, each) for graph in called for each in graph.kept))


def _clause(graph: Graph, operation: KeptOperation) -> str:
    found = next((each for each in graph.operations if each.name == operation.name), None)
    name = operator(found.target) if found else operation.name
    line, module = (place(found.line), found.module) if found else ("", "")
    # In a loop, one line calls several modules.
    where = f"{line} ({module})" if line and module else line or module
    without = operation.error_without
    why = "a result is wrong without it"
    if without is not None:
        why = f"error {without:.2g} without it, {operation.error:.2g} with it"
    return f"`{name}`{f' of {where}' if where else ''} stays in {FULL}: {why}"
