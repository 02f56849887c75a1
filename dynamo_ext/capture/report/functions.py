"""The user's functions outside the cell that operations and breaks are of, as source."""

from __future__ import annotations

import ast
import dataclasses
import linecache
import textwrap
from collections.abc import Iterable, Iterator

from dynamo_ext.capture.report.source_lines import is_users
from dynamo_ext.formatting import place
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.report import Graph, GraphBreak

_Function = ast.FunctionDef | ast.AsyncFunctionDef


def users_functions(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> tuple[CodeBlock, ...]:
    """Each function once, in the order in which the lines of operations come to it."""
    found: dict[tuple[str, int], CodeBlock] = {}
    known: dict[str, list[tuple[str, _Function]]] = {}
    for line in dict.fromkeys(_lines(graphs, breaks)):
        if line.file not in known:
            known[line.file] = list(_functions("".join(linecache.getlines(line.file))))
        holding = [
            each for each in known[line.file] if _first(each[1]) <= line.line <= _last(each[1])
        ]
        if holding:
            name, function = holding[-1]
            found.setdefault((line.file, _first(function)), _block(name, line, function))
    return tuple(found.values())


def _lines(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> Iterator[SourceLine]:
    for graph in graphs:
        for op in graph.operations:
            line = op.called or op.line
            if line is not None and not line.in_cell and is_users(line.file):
                yield line
    for each in breaks:
        yield from (at for at in each.stack if not at.in_cell and is_users(at.file))


def _functions(text: str) -> Iterator[tuple[str, _Function]]:
    """Every function of a file with its name in its class, those inside others after them."""
    try:
        found: list[tuple[str, ast.AST]] = [("", ast.parse(text))]
    except (SyntaxError, ValueError):
        return
    while found:
        prefix, node = found.pop(0)
        for child in ast.iter_child_nodes(node):
            name = prefix
            if isinstance(child, _Function | ast.ClassDef):
                name = f"{prefix}.{child.name}".lstrip(".")
            if isinstance(child, _Function):
                yield name, child
            found.append((name, child))


def _first(function: _Function) -> int:
    return min([function.lineno, *(each.lineno for each in function.decorator_list)])


def _last(function: _Function) -> int:
    return function.end_lineno or function.lineno


def _block(name: str, line: SourceLine, function: _Function) -> CodeBlock:
    first = _first(function)
    lines = linecache.getlines(line.file)[first - 1 : _last(function)]
    name = f"{name}, {place(dataclasses.replace(line, line=first))}"
    return CodeBlock(name, line.file, first, textwrap.dedent("".join(lines)))
