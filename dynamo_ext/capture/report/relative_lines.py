"""Lines of other cells: ``in_cell`` was set for the cell in whose run a frame compiled."""

import dataclasses
from typing import TypeVar

from dynamo_ext.capture.report.source_lines import users_line
from dynamo_ext.records.capture import GraphBreak, Guard
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Fallback, Report

Placed = TypeVar("Placed", Fallback, GraphBreak, Guard, Operation)


def relabel_lines(report: Report) -> Report:
    """The report with the lines of its own cell, and no other's, called the cell's."""
    file = report.cell.file if report.cell is not None else ""
    return dataclasses.replace(
        report,
        breaks=tuple(_break(each, file) for each in report.breaks),
        fallbacks=tuple(_placed(each, file) for each in report.fallbacks),
        guards=tuple(_placed(each, file) for each in report.guards),
        graphs=tuple(_graph(each, file) for each in report.graphs),
    )


def _line(line: SourceLine, file: str) -> SourceLine:
    strange = line.in_cell and line.file != file
    return dataclasses.replace(line, in_cell=False) if strange else line


def _placed(found: Placed, file: str) -> Placed:
    line = found.line and _line(found.line, file)
    return found if line is found.line else dataclasses.replace(found, line=line)


def _break(found: GraphBreak, file: str) -> GraphBreak:
    stack = tuple(_line(line, file) for line in found.stack)
    if stack == found.stack and _placed(found, file) is found:
        return found
    return dataclasses.replace(found, line=users_line(stack), stack=stack)


def _graph(found: Graph, file: str) -> Graph:
    operations = tuple(_placed(each, file) for each in found.operations)
    return dataclasses.replace(found, operations=operations)
