"""Which operators have the time, where operations were timed one by one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dynamo_ext.analysis.placement import FORWARD, operator, place_graph, sets_mode

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report


@dataclass(frozen=True)
class OperatorTime:
    """What one operator takes in eager over all calls of a run.

    ``share`` is of all operations' time; ``engines`` are where it ran, an empty name among them
    where the record does not tell.
    """

    name: str
    calls: int
    seconds: float
    share: float
    engines: tuple[str, ...]


def operator_times(report: Report) -> tuple[OperatorTime, ...]:
    """Every operator that was timed, the costliest first; empty where none was."""
    found: dict[str, list[tuple[float, int, str]]] = {}
    for graph in report.graphs:
        placement = place_graph(report, graph)
        for op in graph.operations if graph.calls else ():
            if op.seconds and not sets_mode(op):
                row = op.seconds * graph.calls, graph.calls, placement.engine_of(op)
                found.setdefault(operator(op.target), []).append(row)
    whole = sum(row[0] for rows in found.values() for row in rows)
    times = []
    for name, rows in found.items():
        seconds = sum(row[0] for row in rows)
        engines = tuple(sorted({row[2] for row in rows}))
        calls = sum(row[1] for row in rows)
        times.append(OperatorTime(name, calls, seconds, seconds / whole, engines))
    return tuple(sorted(times, key=lambda each: -each.seconds))


def shares_by_reason(report: Report) -> dict[str, float]:
    """How much of the operations' time in eager is of those that no engine took, by reason."""
    found: dict[str, float] = {}
    whole = 0.0
    for graph in report.graphs:
        taken = {op.name: op.seconds * graph.calls for op in graph.operations if not sets_mode(op)}
        whole += sum(taken.values())
        for part in graph.partitions:
            if part.reason and part.role in FORWARD:
                seconds = sum(taken.get(name, 0.0) for name in part.captured)
                found[part.reason] = found.get(part.reason, 0.0) + seconds
    return {reason: seconds / whole for reason, seconds in found.items() if seconds}
