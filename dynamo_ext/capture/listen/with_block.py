"""What a ``with`` block calls, as far as the bytecode around it tells.

Dynamo is asked about no frame that it gave up before, and a block's own frame runs as it is.
"""

import collections
import dis
import inspect
import types
from typing import Any

import torch

_ATTRIBUTES = {"LOAD_ATTR", "LOAD_METHOD"}
_CONSTANTS = {"LOAD_CONST", "LOAD_SMALL_INT"}


def functions_called_in(frame: types.FrameType, start: int, end: int) -> list[types.CodeType]:
    """Code of what ``frame`` names between the instructions that enter and leave a block."""
    found = []
    names, value = collections.ChainMap(frame.f_locals, frame.f_globals), None
    for step in dis.get_instructions(frame.f_code):
        if not (start < step.offset < end and step.opname.startswith("LOAD_")):
            continue
        # One instruction may read two variables.
        for name in step.argval if isinstance(step.argval, tuple) else (step.argval,):
            if step.opname in _ATTRIBUTES:
                value = inspect.getattr_static(value, name, None)
            else:
                value = None if step.opname in _CONSTANTS else names.get(name)
            called: Any = type(value).forward if isinstance(value, torch.nn.Module) else value
            called = inspect.unwrap(called) if callable(called) else called
            code = getattr(getattr(called, "__func__", called), "__code__", None)
            found += [code] if isinstance(code, types.CodeType) else []
    return found
