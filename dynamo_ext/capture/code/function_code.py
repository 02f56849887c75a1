"""Statements of a cell as the code of one function, which reads as module code.

The function declares every name that the statements bind ``global``, so that it works in the
namespace it runs in.
"""

import ast
import dis
import inspect
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# codeop's and IPython's compilers share this shape: (tree, file name, mode) -> code
Compiler = Callable[[ast.AST, str, str], types.CodeType]

SEGMENT_NAME = "<module>"
SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_FUNCTION = "__dynamo_ext_segment__"


@dataclass(frozen=True)
class Origin:
    """What the functions of a segment share: the names it binds, its file and its compiler."""

    stored: frozenset[str]
    filename: str
    compiler: Compiler


def function_code(
    nodes: Sequence[ast.stmt],
    origin: Origin,
    shown: ast.Expr | None = None,
    arguments: Sequence[str] = (),
) -> types.CodeType:
    """The code of a function of ``nodes`` that gives the value of ``shown``."""
    body: list[ast.stmt] = list(nodes)
    if shown is not None:
        body.append(ast.copy_location(ast.Return(shown.value), shown))
    if origin.stored:
        body.insert(0, ast.copy_location(ast.Global(sorted(origin.stored)), body[0]))
    taken = ast.arguments([], [ast.arg(name) for name in arguments], None, [], [], None, [])
    function = ast.FunctionDef(_FUNCTION, taken, body, [], None)
    if "type_params" in ast.FunctionDef._fields:
        function.type_params = []  # type: ignore[attr-defined,unused-ignore]
    # As module code does, which front ends count on when they show the lines around an error.
    function.lineno = function.end_lineno = 1
    function.col_offset = function.end_col_offset = 0
    module = ast.fix_missing_locations(ast.Module([function], []))
    with warnings.catch_warnings():
        # Said once already, for the statements as module code.
        warnings.simplefilter("ignore", SyntaxWarning)
        outer = origin.compiler(module, origin.filename, "exec")
    return _as_module_code(next(c for c in codes_within(outer) if c.co_name == _FUNCTION))


def codes_within(code: types.CodeType) -> Iterator[types.CodeType]:
    """A code object, and those of the functions, classes and comprehensions in it."""
    yield code
    for const in code.co_consts:
        if isinstance(const, types.CodeType):
            yield from codes_within(const)


def stored_names(code: types.CodeType) -> frozenset[str]:
    """Names that a statement binds or deletes at module level, read off Python's own code."""
    return frozenset(
        step.argval
        for each in codes_within(code)
        for step in dis.get_instructions(each)
        # A walrus inside a comprehension binds the cell's name.
        if step.opname == "STORE_GLOBAL"
        or (each is code and step.opname in {"STORE_NAME", "DELETE_NAME"})
    )


def _as_module_code(code: types.CodeType, depth: int = 0) -> types.CodeType:
    """Rename, so that tracebacks and ``repr`` read as those of module code."""
    prefix = f"{_FUNCTION}.<locals>."
    consts = tuple(
        _as_module_code(c, depth + 1)
        if isinstance(c, types.CodeType)
        else c.removeprefix(prefix)
        if isinstance(c, str)
        else c
        for c in code.co_consts
    )
    if depth == 0:
        return code.replace(co_name=SEGMENT_NAME, co_qualname=SEGMENT_NAME, co_consts=consts)
    flags = code.co_flags & ~inspect.CO_NESTED if depth == 1 else code.co_flags
    qualname = code.co_qualname.removeprefix(prefix)
    return code.replace(co_qualname=qualname, co_consts=consts, co_flags=flags)
