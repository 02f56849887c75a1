"""What an engine did with a run, from its report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.stored_row import StoredRow

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report

_FAULTS = ("unavailable", "lower", "verify", "run")
"""Stages of a fallback that an engine is to blame for, which had accepted its part."""


@dataclass(frozen=True, kw_only=True)
class EngineRow(StoredRow):
    """What ``engine_facts`` finds.

    ``operations`` are those of all graphs, ``in_engine`` those that ran in the engine. ``refused``
    are operators that it does not take, ``faults`` what was said where eager took over on what it
    had taken.
    """

    graphs: int = 0
    breaks: int = 0
    operations: int = 0
    in_engine: int = 0
    refused: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()


def engine_facts(report: Report) -> dict[str, Any]:
    """The fields of an ``EngineRow``."""
    parts = [p for graph in report.graphs for p in graph.partitions if p.engine != "eager"]
    faults = {
        f"{each.stage}: {each.operator} {each.exception} {first_line(each.message)}"
        for each in report.fallbacks
        if each.stage in _FAULTS
    }
    unsupported = (each for each in report.fallbacks if each.stage == "unsupported")
    return {
        "graphs": len(report.graphs),
        "breaks": sum(found.count for found in report.breaks),
        "refused": tuple(sorted({each.operator for each in unsupported if each.operator})),
        "operations": sum(graph.normalised for graph in report.graphs),
        "in_engine": sum(part.operations for part in parts),
        "faults": tuple(sorted(faults)),
    }


def first_line(message: str) -> str:
    """The first line of what was said, of a length for a row."""
    return (message.strip().splitlines() or [""])[0][:200]
