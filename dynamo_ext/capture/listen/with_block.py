"""What a ``with`` block calls, as far as the bytecode around it tells.

Dynamo is asked about no frame that it gave up before, and a block's own frame runs as it is.
"""

import collections
import dis
import functools
import inspect
import types
from collections.abc import Collection
from typing import Any

import torch

_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}


def functions_called_in(frame: types.FrameType, start: int, end: int) -> list[types.CodeType]:
    """Code of what ``frame`` names between the instructions that enter and leave a block."""
    found = []
    names = collections.ChainMap(frame.f_locals, frame.f_globals)
    for name, attribute in _names(frame.f_code, start, end):
        value: Any = names.get(name)
        if attribute:
            value = inspect.getattr_static(value, attribute, None)
        elif isinstance(value, torch.nn.Module):
            value = type(value).forward
        value = inspect.unwrap(value) if callable(value) else value
        code = getattr(getattr(value, "__func__", value), "__code__", None)
        if isinstance(code, types.CodeType):
            found.append(code)
    return found


@functools.lru_cache(maxsize=64)
def _names(code: types.CodeType, start: int, end: int) -> Collection[tuple[str, str]]:
    """Every variable that is read, by itself and with the attribute that is read of it."""
    found: dict[tuple[str, str], None] = {}
    last = ""
    for step in dis.get_instructions(code):
        if not start < step.offset < end:
            continue
        named: list[str] = []
        if step.opname in _ATTRIBUTES:
            if last:
                found[last, step.argval] = None
        elif step.opname.startswith("LOAD_") and step.opname not in _CONSTANTS:
            # One instruction may read two variables.
            read = step.argval if isinstance(step.argval, tuple) else (step.argval,)
            named = [name for name in read if isinstance(name, str)]
            found |= {(name, ""): None for name in named}
        last = named[-1] if named else ""
    return found
