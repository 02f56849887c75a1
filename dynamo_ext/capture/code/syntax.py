"""The syntax around a line of the user's code, and the loop that the line may end."""

import ast
import functools
import linecache
from collections.abc import Iterator

Loop = ast.For | ast.AsyncFor | ast.While
NAMED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
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
        if isinstance(node, (*NAMED, ast.Lambda)):
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
