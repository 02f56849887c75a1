"""The user's functions outside the cell that a run's operations and breaks are in, as source."""

import ast
import dataclasses
import linecache
import textwrap
from collections.abc import Iterable, Iterator

from dynamo_ext.capture.code.source_lines import is_users
from dynamo_ext.capture.code.syntax import NAMED, nodes_around
from dynamo_ext.formatting import place
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.graph import Graph


def users_functions(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> tuple[CodeBlock, ...]:
    """Each function once, in the order in which the lines of operations come to it."""
    found: dict[tuple[str, int], CodeBlock] = {}
    for line in dict.fromkeys(_lines(graphs, breaks)):
        around = [n for n in nodes_around(line.file, line.line) if isinstance(n, NAMED)]
        while around and isinstance(around[-1], ast.ClassDef):
            around.pop()
        if around:
            first = min(each.lineno for each in (around[-1], *around[-1].decorator_list))
            if (line.file, first) in found:
                continue
            name = ".".join(each.name for each in around)
            named = f"{name}, {place(dataclasses.replace(line, line=first))}"
            text = linecache.getlines(line.file)[first - 1 : around[-1].end_lineno]
            block = CodeBlock(named, line.file, first, textwrap.dedent("".join(text)))
            found[line.file, first] = block
    return tuple(found.values())


def _lines(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> Iterator[SourceLine]:
    for graph in graphs:
        for op in graph.operations:
            line = op.called or op.line
            if line is not None and not line.in_cell and is_users(line.file):
                yield line
    for each in breaks:
        yield from (at for at in each.stack if not at.in_cell and is_users(at.file))
