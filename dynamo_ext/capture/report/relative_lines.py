"""Lines of other cells: ``in_cell`` was set for the cell in whose run a frame compiled."""

import dataclasses
from typing import TypeVar

from dynamo_ext.capture.report.source_lines import users_line
from dynamo_ext.records.capture import GraphBreak, Guard
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Operation
from dynamo_ext.records.report import Fallback, Report

Placed = TypeVar("Placed", Fallback, GraphBreak, Guard, Operation)


def relabel_lines(report: Report) -> Report:
    """The report with the lines of its own cell, and no other's, called the cell's."""
    file = report.cell.file if report.cell is not None else ""
    return dataclasses.replace(
        report,
        breaks=_all_placed(report.breaks, file),
        fallbacks=_all_placed(report.fallbacks, file),
        guards=_all_placed(report.guards, file),
        graphs=tuple(
            dataclasses.replace(graph, operations=_all_placed(graph.operations, file))
            for graph in report.graphs
        ),
    )


def _all_placed(records: tuple[Placed, ...], file: str) -> tuple[Placed, ...]:
    return tuple(_placed(each, file) for each in records)


def _placed(found: Placed, file: str) -> Placed:
    if isinstance(found, GraphBreak):
        stack = tuple(_line(each, file) for each in found.stack)
        if stack != found.stack:
            return dataclasses.replace(found, line=users_line(stack), stack=stack)
    line = found.line and _line(found.line, file)
    return found if line is found.line else dataclasses.replace(found, line=line)


def _line(line: SourceLine, file: str) -> SourceLine:
    strange = line.in_cell and line.file != file
    return dataclasses.replace(line, in_cell=False) if strange else line
