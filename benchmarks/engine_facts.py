"""What an engine did with a run, from its report."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report

_FAULTS = ("unavailable", "lower", "verify", "run")
"""Stages of a fallback that an engine is to blame for, which had accepted its part."""


def engine_facts(report: Report) -> dict[str, Any]:
    """Operations of all graphs, those in the engine, and what was said where eager took over."""
    parts = [p for graph in report.graphs for p in graph.partitions if p.engine != "eager"]
    faults = {
        f"{each.stage}: {each.operator} {each.exception} {first_line(each.message)}"
        for each in report.fallbacks
        if each.stage in _FAULTS
    }
    return {
        "operations": sum(graph.normalised for graph in report.graphs),
        "in_engine": sum(part.operations for part in parts),
        "faults": tuple(sorted(faults)),
    }


def first_line(message: str) -> str:
    """The first line of what was said, of a length for a row."""
    return (message.strip().splitlines() or [""])[0][:200]
