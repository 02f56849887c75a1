"""Compiled code whose classes have other methods by now: Dynamo's guards do not look at those.

``Net.forward = …``, or a method added to a subclass, would leave what was compiled with the old one
in use. So each run of a cell looks at the classes first.
"""

from __future__ import annotations

import types
import weakref
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import torch_private

if TYPE_CHECKING:
    from collections.abc import Iterable


@dataclass
class _Class:
    """A class's own functions as they were, and the code that was compiled with them."""

    functions: dict[str, weakref.ref[types.FunctionType]]
    # By identity, as code objects compare by content.
    compiled: dict[int, weakref.ref[types.CodeType]] = field(default_factory=dict)


_seen: weakref.WeakKeyDictionary[type, _Class] = weakref.WeakKeyDictionary()


def note_classes(code: types.CodeType, guards: Iterable[Any]) -> None:
    """Remember the methods of the classes that a frame's guards speak of."""
    guarded = set(map(torch_private.guarded_class, guards))
    for base in {base for each in guarded if each is not None for base in each.__mro__[:-1]}:
        if base not in _seen:
            _seen[base] = _Class(_functions(base))
        _seen[base].compiled[id(code)] = weakref.ref(code)


def forget_stale() -> int:
    """Drop what was compiled with methods that are no longer their classes'; how many frames."""
    changed = [(of, known) for of, known in _seen.items() if _functions(of) != known.functions]
    stale: dict[int, types.CodeType] = {}
    for of, known in changed:
        del _seen[of]
        found = ((key, reference()) for key, reference in known.compiled.items())
        stale.update((key, code) for key, code in found if code is not None)
    for code in stale.values():
        torch_private.forget_code(code)
    return len(stale)


def _functions(of: type) -> dict[str, weakref.ref[types.FunctionType]]:
    found = {}
    for name, value in vars(of).items():
        function = getattr(value, "__func__", value)
        if isinstance(function, types.FunctionType):
            found[name] = weakref.ref(function)
    return found
