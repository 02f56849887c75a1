"""A traceback as a plain cell has it: the user's frames, theirs only, each once.

Between them are ours, Dynamo's and generated ones, and one function may appear several times: the
rewritten frame, the functions that resume it, and its eager replay.
"""

import ast
import inspect
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from dynamo_ext.capture.code.block import is_header
from dynamo_ext.capture.code.function_code import codes_within
from dynamo_ext.capture.code.source_lines import OURS, is_users, original_function
from dynamo_ext.capture.code.syntax import nodes_around
from dynamo_ext.capture.listen import compiling
from dynamo_ext.capture.listen.eager_replay import run_original
from dynamo_ext.capture.torch_private import code_cache

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_TORCH = Path(torch.__file__).parent
_MACHINERY = (
    OURS,
    str(_TORCH / "_dynamo"),
    str(_TORCH / "fx"),
    str(_TORCH / "_functorch"),
    "<eval_with_key>",
)
_COMPILERS = {
    "torch._dynamo.convert_frame",
    "torch._inductor.compile_fx",
    "dynamo_ext.backends.compiler",
    "dynamo_ext.interruptions",
    "Engines.build",
}


def users_traceback(
    traceback: types.TracebackType | None, cell_file: str, *, interrupted: bool = False
) -> types.TracebackType | None:
    """The part of a traceback from the cell inwards, without compilers but what they call of it.

    Where the cell is not on it, from the user's frames inwards. None if a compiler was
    ``interrupted``: the line that called it does not matter.
    """
    entries = list(_entries(traceback))
    starts = [i for i, tb in enumerate(entries) if tb.tb_frame.f_code.co_filename == cell_file]
    kept: list[types.TracebackType] = []
    compiling = not starts
    for entry in entries[starts[0] if starts else 0 :]:
        code, names = entry.tb_frame.f_code, entry.tb_frame.f_globals
        module = str(names.get("__name__"))
        # Inductor's code is in files of its cache; that of a library's dataclass is in none.
        machinery = code.co_filename.startswith(_MACHINERY) or module.startswith("torch._inductor")
        users = not machinery and all(map(is_users, (code.co_filename, str(names.get("__file__")))))
        compiling = compiling or not _COMPILERS.isdisjoint((module, code.co_qualname))
        compiling = compiling and not users
        if code is run_original.__code__:
            # The replay that follows stands for the frame whose graph failed.
            del kept[-1:]
        elif not (compiling or machinery):
            outer = kept[-1].tb_frame.f_code if kept else None
            if outer is not None and _continues(code, outer):
                if entry.tb_lineno == code.co_firstlineno:
                    # Dynamo's call of a graph has no line of its own.
                    continue
                kept.pop()
            kept.append(entry)
    rebuilt: types.TracebackType | None = None
    for entry in reversed([] if interrupted and compiling else kept):
        frame, last = entry.tb_frame, entry.tb_lasti
        code = frame.f_code
        if original_function(code.co_name) != code.co_name or not _can_be_counted(code):
            frame = _named_frame(frame, entry.tb_lineno)
            last = frame.f_lasti
        rebuilt = types.TracebackType(rebuilt, frame, last, entry.tb_lineno)
    return rebuilt


def trim_tracebacks(error: BaseException, cell_file: str) -> bool:
    """Leave an error and those it came from with the user's frames; whether the cell is on it."""
    seen: set[int] = set()
    pending: list[BaseException | None] = [error]
    while pending:
        one = pending.pop()
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        stop = isinstance(one, KeyboardInterrupt)
        one.__traceback__ = users_traceback(one.__traceback__, cell_file, interrupted=stop)
        pending += [one.__cause__, one.__context__]
        if isinstance(one, BaseExceptionGroup):
            pending += one.exceptions
    return any(tb.tb_frame.f_code.co_filename == cell_file for tb in _entries(error.__traceback__))


def _entries(traceback: types.TracebackType | None) -> Iterator[types.TracebackType]:
    while traceback is not None:
        yield traceback
        traceback = traceback.tb_next


def _continues(code: types.CodeType, outer: types.CodeType) -> bool:
    """Whether ``code`` goes on with ``outer`` after a break, or is a part of its statement."""
    name = original_function(code.co_name)
    of_one = code.co_filename == outer.co_filename and name == original_function(outer.co_name)
    return of_one and (name != code.co_name or is_header(outer))


def _can_be_counted(code: types.CodeType) -> bool:
    """Whether it has a hash: code with a slice among its constants has none before 3.12."""
    try:
        hash(code)
    except TypeError:
        return False
    return True


def _named_frame(frame: types.FrameType, line: int) -> types.FrameType:
    """A frame at ``line`` that shows under the user's function name, not the resume function's."""
    code = frame.f_code
    name = original_function(code.co_name)
    functions = (n for n in nodes_around(code.co_filename, line) if isinstance(n, _FUNCTIONS))
    defined = max((n.lineno for n in functions if n.name == name), default=line)
    first = 1 if name == "<module>" else defined
    lead, gap = "\n" * (first - 1), "\n" * (line - first)
    entry = compiling.entry_of_rewritten(code)
    original = code_cache.users_code((entry.code() if entry else None) or code)
    text = f"{lead}def shown{_arguments(original or code)}:{gap} return {_LOOK}()"
    outer = compile(text, code.co_filename, "exec")
    _, inner = codes_within(outer)
    inner = inner.replace(co_name=name, co_qualname=name)
    # The only way to a frame object: the function looks at its own.
    namespace: dict[str, Any] = {**frame.f_globals, _LOOK: sys._getframe}  # noqa: SLF001
    shown: types.FrameType = run_original(inner, dict.fromkeys(inner.co_varnames), namespace)
    return shown


def _arguments(code: types.CodeType) -> str:
    """A function's arguments in brackets, as written in its ``def``, without defaults."""
    closure = tuple(types.CellType() for _ in code.co_freevars)
    return str(inspect.signature(types.FunctionType(code, {}, closure=closure)))


_LOOK = "__dynamo_ext_look__"
