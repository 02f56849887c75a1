"""A cell's text as segments that run one after the other in the user's namespace.

Dynamo does not trace module code, so runs of ordinary statements become functions that declare each
name they store ``global``: they behave as in a plain cell, since they use its namespace. What
Python treats differently inside a function (definitions, imports, annotations, ``locals()``,
``exec``) stays module code, statement by statement.
"""

from __future__ import annotations

import ast
import dataclasses
import types
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from dynamo_ext.capture.code.block import Block
from dynamo_ext.capture.code.function_code import (
    SCOPES,
    Compiler,
    Origin,
    function_code,
    stored_names,
)
from dynamo_ext.errors import CellError

_FRAME_READERS = frozenset(
    {"locals", "vars", "dir", "exec", "eval", "globals", "get_ipython", "breakpoint", "super"}
)
_STANCE = "set_stance"
_ABOUT_COMPILING = frozenset({"compile", _STANCE})
"""Traced, ``torch.compile(f)`` is ``f`` itself, and ``torch.compiler.set_stance`` raises."""

_DEFINITIONS = (
    ast.FunctionDef,
    ast.AsyncFunctionDef,
    ast.ClassDef,
    ast.Import,
    ast.ImportFrom,
    ast.Global,
    ast.AnnAssign,
    ast.Delete,
    ast.Raise,
)


@dataclass(frozen=True)
class Segment:
    """A stretch of a cell with one way to run it.

    ``plain`` is the stretch as IPython runs it, ``block`` the same as one function for Dynamo
    (``None``: only module code will do). ``displays``: the function's value goes to the display
    hook.
    """

    plain: tuple[PlainStatement, ...]
    block: Block | None
    displays: bool


@dataclass(frozen=True)
class PlainStatement:
    """One statement of module code.

    ``code`` is ``None`` where Python refuses it: compiling it at its turn raises what a plain cell
    does.
    """

    tree: ast.AST = field(repr=False)
    mode: str
    code: types.CodeType | None


@dataclass(frozen=True)
class CellProgram:
    """What a cell's text becomes. ``source`` keeps the editor's line numbers."""

    source: str
    filename: str
    segments: tuple[Segment, ...]

    @property
    def stored_names(self) -> frozenset[str]:
        """The names that the cell binds or deletes at top level."""
        return frozenset().union(*map(stored_names, self.statement_codes))

    @property
    def statement_codes(self) -> tuple[types.CodeType, ...]:
        """The code of each statement as module code."""
        plain = (statement.code for s in self.segments for statement in s.plain)
        return tuple(code for code in plain if code is not None)

    @property
    def codes(self) -> tuple[types.CodeType, ...]:
        """The code objects that Dynamo may hold compiled versions of."""
        return tuple(c for s in self.segments if s.block is not None for c in s.block.codes())


def build_program(
    source: str,
    filename: str,
    compiler: Compiler,
    *,
    interactivity: str = "last_expr",
    transform: Callable[[ast.Module], ast.Module] = lambda tree: tree,
) -> CellProgram:
    """Divide a cell into segments.

    ``source`` is Python (IPython syntax already translated) with the editor's line numbers, and
    ``compiler`` the shell's own, so that ``from __future__`` carries over. ``interactivity`` is
    IPython's ``ast_node_interactivity``, ``transform`` its AST transformers. Raises ``SyntaxError``
    as a plain cell does, and ``CellError`` for top-level ``await``.
    """
    flags = ast.PyCF_ONLY_AST | getattr(compiler, "flags", 0)
    tree = transform(compile(source, filename, "exec", flags))
    _refuse_await(tree)
    origin = Origin(frozenset(), filename, compiler)
    segments = _divide(_displayed(tree.body, interactivity), origin)
    return CellProgram(source, filename, tuple(segments))


def _refuse_await(tree: ast.Module) -> None:
    for node in _own_scope(tree):
        waits = isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or (
            isinstance(node, ast.comprehension) and node.is_async
        )
        if waits:
            line = getattr(node, "lineno", 0)
            where = f" (line {line})" if line else ""
            msg = f"A %%dynamo cell cannot await at top level{where}."
            raise CellError(msg, "Await it in a plain cell, and use the result here.")


def _own_scope(node: ast.AST) -> Iterator[ast.AST]:
    """Every node that runs in this scope: nested functions, lambdas and class bodies excepted."""
    for child in ast.iter_child_nodes(node):
        yield child
        if not isinstance(child, SCOPES):
            yield from _own_scope(child)


def _displayed(body: Sequence[ast.stmt], interactivity: str) -> list[tuple[ast.stmt, bool]]:
    """Each statement, and whether its value is shown (IPython's ``run_ast_nodes``)."""
    nodes = list(body)
    if not nodes:
        return []
    if interactivity == "last_expr_or_assign" and (name := _assigned_name(nodes[-1])):
        value = ast.copy_location(ast.Expr(ast.Name(name, ast.Load())), nodes[-1])
        nodes.append(ast.fix_missing_locations(value))
    shown = [interactivity == "all"] * len(nodes)
    if interactivity.startswith("last"):
        shown[-1] = interactivity == "last" or isinstance(nodes[-1], ast.Expr)
    return list(zip(nodes, shown, strict=True))


def _assigned_name(node: ast.stmt) -> str | None:
    match node:
        case (
            ast.Assign(targets=[ast.Name(id=name)])
            | ast.AugAssign(target=ast.Name(id=name))
            | ast.AnnAssign(target=ast.Name(id=name))
        ):
            return name
    return None


def _divide(nodes: Sequence[tuple[ast.stmt, bool]], origin: Origin) -> Iterator[Segment]:
    pending: list[PlainStatement] = []

    def flush() -> Iterator[Segment]:
        if pending:
            yield _traced_segment(tuple(pending), origin)
            pending.clear()

    annotated = False
    for whole, shown in nodes:
        parts = _split_annotation(whole)
        if isinstance(whole, ast.AnnAssign) and not annotated:
            annotated = True
            parts.insert(0, _annotations_setup(whole))
        for node in parts:
            statement = _plain_statement(node, origin, shown=shown)
            if not _traceable(node, statement, origin):
                yield from flush()
                yield Segment((statement,), None, displays=False)
                continue
            pending.append(statement)
            if shown:
                yield from flush()
    yield from flush()


def _split_annotation(node: ast.stmt) -> list[ast.stmt]:
    """``x: T = value`` as ``x = value`` (which can be traced) and ``x: T`` (which cannot)."""
    if isinstance(node, ast.AnnAssign) and node.value is not None and node.simple:
        value = ast.copy_location(ast.Assign([node.target], node.value), node)
        note = ast.AnnAssign(node.target, node.annotation, None, node.simple)
        return [value, ast.copy_location(note, node)]
    return [node]


def _annotations_setup(node: ast.AnnAssign) -> ast.stmt:
    """What Python does before the first annotation: it makes the dictionary."""
    note = ast.AnnAssign(ast.Name("_", ast.Store()), ast.Constant(0), None, 1)
    never = ast.If(ast.Constant(value=False), [note], [])
    return ast.fix_missing_locations(ast.copy_location(never, node))


def _plain_statement(node: ast.stmt, origin: Origin, *, shown: bool) -> PlainStatement:
    tree: ast.AST = ast.Interactive([node]) if shown else ast.Module([node], [])
    mode = "single" if shown else "exec"
    try:
        return PlainStatement(tree, mode, origin.compiler(tree, origin.filename, mode))
    except SyntaxError:
        return PlainStatement(tree, mode, None)


def _traceable(node: ast.stmt, statement: PlainStatement, origin: Origin) -> bool:
    # `return` and `yield` are legal in a function and not in a cell.
    if statement.code is None or (statement.mode == "single" and not isinstance(node, ast.Expr)):
        return False
    constant = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
    if constant or isinstance(node, _DEFINITIONS) or type(node).__name__ == "TypeAlias":
        return False
    if any(_needs_module_code(child) for child in _own_scope(node)):
        return False
    try:
        function_code([node], dataclasses.replace(origin, stored=stored_names(statement.code)))
    except SyntaxError:
        return False
    return True


def _needs_module_code(node: ast.AST) -> bool:
    """Whether an expression or inner statement means something else inside a function."""
    match node:
        case ast.Name(id=name):
            return name in _FRAME_READERS or name == _STANCE
        case ast.Attribute(attr=name):
            return name in _ABOUT_COMPILING
        case ast.Call(func=ast.Name(id="type"), args=[_, _, _]):
            # It makes a class, which would have the tracer's module.
            return True
    return isinstance(node, (ast.ClassDef, ast.Import, ast.ImportFrom))


def _traced_segment(plain: tuple[PlainStatement, ...], origin: Origin) -> Segment:
    nodes = [s.tree.body[0] for s in plain]  # type: ignore[attr-defined]
    displays = plain[-1].mode == "single"
    shown = nodes.pop() if displays else None
    stored = frozenset().union(*(stored_names(s.code) for s in plain if s.code is not None))
    block = Block(nodes, dataclasses.replace(origin, stored=stored), shown)
    return Segment(plain, block, displays)
