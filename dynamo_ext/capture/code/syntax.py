"""What is around a line of the user's code: its function, and the loop that it may end."""

import ast
import dataclasses
import functools
import linecache
import textwrap
from collections.abc import Iterable, Iterator

from dynamo_ext.capture.code.source_lines import is_users
from dynamo_ext.formatting import place
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import CodeBlock, SourceLine
from dynamo_ext.records.graph import Graph

Loop = ast.For | ast.AsyncFor | ast.While
_NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_LEAVING = (ast.Break, ast.Continue, ast.Return)


def nodes_around(file: str, line: int) -> Iterator[ast.AST]:
    """The parts of a file's syntax that a line is in, the outermost first."""
    node: ast.AST | None = _parsed("".join(linecache.getlines(file)))
    while node is not None:
        yield node
        node = next((each for each in ast.iter_child_nodes(node) if _spans(each, line)), None)


@functools.lru_cache(maxsize=32)
def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):
        return ast.Module([], [])


def loop_around(file: str, line: int) -> Loop | None:
    """The outermost loop around a line in the line's own function."""
    found: Loop | None = None
    for node in nodes_around(file, line):
        if isinstance(node, (*_NAMED, ast.Lambda)):
            found = None
        elif found is None and isinstance(node, Loop):
            found = node
    return found


def leaves(loop: Loop, line: int) -> bool:
    """Whether what is decided at a line is whether a loop around it goes on."""
    asked = [n for n in ast.walk(loop) if isinstance(n, (ast.If, ast.While))]
    return any(
        isinstance(node, ast.While) or any(isinstance(n, _LEAVING) for n in ast.walk(node))
        for node in asked
        if node.lineno <= line <= (node.test.end_lineno or node.lineno)
    )


def _spans(node: ast.AST, line: int) -> bool:
    first, last = getattr(node, "lineno", None), getattr(node, "end_lineno", None)
    return first is not None and last is not None and first <= line <= last


def users_functions(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> tuple[CodeBlock, ...]:
    """Each function once, in the order in which the lines of operations come to it."""
    found: dict[tuple[str, int], CodeBlock] = {}
    for line in dict.fromkeys(_lines(graphs, breaks)):
        around = [n for n in nodes_around(line.file, line.line) if isinstance(n, _NAMED)]
        while around and isinstance(around[-1], ast.ClassDef):
            around.pop()
        if around:
            first = min(each.lineno for each in (around[-1], *around[-1].decorator_list))
            name = ".".join(each.name for each in around)
            named = f"{name}, {place(dataclasses.replace(line, line=first))}"
            text = linecache.getlines(line.file)[first - 1 : around[-1].end_lineno]
            block = CodeBlock(named, line.file, first, textwrap.dedent("".join(text)))
            found.setdefault((line.file, first), block)
    return tuple(found.values())


def _lines(graphs: Iterable[Graph], breaks: Iterable[GraphBreak]) -> Iterator[SourceLine]:
    for graph in graphs:
        for op in graph.operations:
            line = op.called or op.line
            if line is not None and not line.in_cell and is_users(line.file):
                yield line
    for each in breaks:
        yield from (at for at in each.stack if not at.in_cell and is_users(at.file))
