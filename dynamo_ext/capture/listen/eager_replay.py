"""A user's error inside a compiled graph, raised again from the user's own line.

Dynamo applies a frame's effects only after its graph has run. So running the original code from the
frame's arguments gives the exception, line and assignments of a plain cell.
"""

import inspect
import types
from collections.abc import Mapping
from typing import Any


def run_original(
    original: types.CodeType, names: Mapping[str, Any], namespace: dict[str, Any]
) -> Any:
    """Run a frame's original code as plain Python from the arguments it was entered with."""
    named, star, stars = inspect.getargs(original)
    positional = [names[n] for n in named[: original.co_argcount]]
    keywords = {n: names[n] for n in named[original.co_argcount :]}
    if star:
        positional += names[star] or ()
    if stars:
        keywords.update(names[stars] or {})
    closure = tuple(
        types.CellType(names[n]) if n in names else types.CellType() for n in original.co_freevars
    )
    function = types.FunctionType(original, namespace, original.co_name, None, closure)
    return function(*positional, **keywords)
