"""A user's error inside a compiled graph, raised again from the user's own line.

Dynamo applies a frame's effects only after its graph has run. So running the original code from the
frame's arguments gives the exception, line and assignments of a plain cell.
"""

import types
from collections.abc import Mapping
from typing import Any


def run_original(
    original: types.CodeType, names: Mapping[str, Any], namespace: dict[str, Any]
) -> Any:
    """Run a frame's original code as plain Python from the arguments it was entered with."""
    count = original.co_argcount + original.co_kwonlyargcount
    positional = [names[n] for n in original.co_varnames[: original.co_argcount]]
    keywords = {n: names[n] for n in original.co_varnames[original.co_argcount : count]}
    rest = original.co_varnames[count:]
    if original.co_flags & 0x04:  # CO_VARARGS
        positional += list(names[rest[0]])
        rest = rest[1:]
    if original.co_flags & 0x08:  # CO_VARKEYWORDS
        keywords.update(names[rest[0]])
    closure = tuple(
        types.CellType(names[n]) if n in names else types.CellType() for n in original.co_freevars
    )
    function = types.FunctionType(original, namespace, original.co_name, None, closure)
    return function(*positional, **keywords)


REPLAY_CODE = run_original.__code__
