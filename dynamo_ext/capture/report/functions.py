"""The user's functions outside the cell that operations and breaks are of, as source."""

from __future__ import annotations

import ast
import dataclasses
import functools
import linecache
import textwrap
from collections.abc import Iterable, Iterator

from dynamo_ext.capture.report.source_lines import is_users
from dynamo_ext.formatting import place
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.graph import Graph

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def users_functions(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> tuple[CodeBlock, ...]:
    """Each function once, in the order in which the lines of operations come to it."""
    found: dict[tuple[str, int], CodeBlock] = {}
    for line in dict.fromkeys(_lines(graphs, breaks)):
        text = linecache.getlines(line.file)
        holding = [each for each in _functions("".join(text)) if each[1] <= line.line <= each[2]]
        if holding:
            name, first, last = holding[-1]
            named = f"{name}, {place(dataclasses.replace(line, line=first))}"
            source = textwrap.dedent("".join(text[first - 1 : last]))
            found.setdefault((line.file, first), CodeBlock(named, line.file, first, source))
    return tuple(found.values())


def _lines(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> Iterator[SourceLine]:
    for graph in graphs:
        for op in graph.operations:
            line = op.called or op.line
            if line is not None and not line.in_cell and is_users(line.file):
                yield line
    for each in breaks:
        yield from (at for at in each.stack if not at.in_cell and is_users(at.file))


@functools.lru_cache(maxsize=32)
def _functions(text: str) -> tuple[tuple[str, int, int], ...]:
    """Name, first and last line of every function of a file, those inside others after them."""
    try:
        left: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
    except (SyntaxError, ValueError):
        return ()
    found = []
    while left:
        prefix, node = left.pop(0)
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, _Function | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
            if isinstance(child, _Function):
                starts = [child.lineno, *(each.lineno for each in child.decorator_list)]
                found.append((name, min(starts), child.end_lineno or child.lineno))
            left.append((name, child))
    return tuple(found)
