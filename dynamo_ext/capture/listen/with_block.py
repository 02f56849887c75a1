"""What a ``with`` block calls, as far as the bytecode around it tells.

Dynamo is asked about no frame that it gave up before, and a block's own frame runs as it is.
"""

import collections
import dis
import functools
import inspect
import itertools
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
    steps = [step for step in dis.get_instructions(code) if start < step.offset < end]
    found: dict[tuple[str, str], None] = {}
    for step, after in itertools.pairwise([*steps, *steps[-1:]]):
        if not step.opname.startswith("LOAD_") or step.opname in _ATTRIBUTES | _CONSTANTS:
            continue
        # One instruction may read two variables.
        read = step.argval if isinstance(step.argval, tuple) else (step.argval,)
        named = [name for name in read if isinstance(name, str)]
        found |= {(name, ""): None for name in named}
        if named and after.opname in _ATTRIBUTES:
            found[named[-1], after.argval] = None
    return found
