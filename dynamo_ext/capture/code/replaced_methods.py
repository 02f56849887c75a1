"""Compiled code whose classes have other methods by now: Dynamo's guards do not look at those.

So each run of a cell looks at the classes first. Where a class changes while a cell runs, what was
compiled with its methods is guarded on them from then on.
"""

import types
import weakref
from collections.abc import Iterable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.torch_private import code_cache


@dataclass
class _Class:
    """A class's own functions as they were, and the code that was compiled with them."""

    functions: dict[str, weakref.ref[types.FunctionType]]
    # By identity, as code objects compare by content.
    compiled: MutableMapping[types.CodeType, None] = field(default_factory=WeakIdKeyDictionary)


_seen: weakref.WeakKeyDictionary[type, _Class] = weakref.WeakKeyDictionary()
# Of these classes, what is not guarded has been forgotten.
_watched: weakref.WeakSet[type] = weakref.WeakSet()


def note_classes(code: types.CodeType, guards: Iterable[Any]) -> None:
    """Remember the methods of the classes that a frame's guards speak of."""
    guarded = set(map(code_cache.guarded_class, guards))
    for base in {base for each in guarded if each is not None for base in each.__mro__[:-1]}:
        if base not in _seen:
            _seen[base] = _Class(_functions(base))
        _seen[base].compiled[code] = None


def forget_stale() -> int:
    """Drop what was compiled with methods that are no longer their classes'; how many frames."""
    changed = [(of, known) for of, known in _seen.items() if _functions(of) != known.functions]
    stale = {id(code): code for _, known in changed for code in known.compiled}
    for of, _ in changed:
        del _seen[of]
    for code in stale.values():
        code_cache.forget_code(code)
    return len(stale)


def watch(changing: type) -> None:
    """Guard what was compiled with the methods of a class, which change while a cell runs."""
    if changing in _watched:
        return
    _watched.add(changing)
    known = _seen.get(changing)
    for code in list(known.compiled) if known else ():
        for manager in code_cache.guard_managers(code):
            _guard(manager, changing, known.functions)  # type: ignore[union-attr]


def watch_changed() -> None:
    """``watch`` the classes whose methods are others already."""
    for of, known in list(_seen.items()):
        if of not in _watched and _functions(of) != known.functions:
            watch(of)


def guard_watched(code: types.CodeType, manager: Any) -> None:
    """Guard code that has just been compiled on the methods of the classes that are watched."""
    for of in list(_watched):
        known = _seen.get(of)
        if known is not None and code in known.compiled:
            _guard(manager, of, _functions(of))


def _guard(manager: Any, of: type, functions: dict[str, weakref.ref[types.FunctionType]]) -> None:
    reference, name = weakref.ref(of), of.__qualname__

    def unchanged(_: object) -> bool:
        still = reference()
        return still is not None and _functions(still) == functions

    code_cache.guard_also(manager, unchanged, f"the methods of {name} must stay the same")


def _functions(of: type) -> dict[str, weakref.ref[types.FunctionType]]:
    bare = {name: getattr(value, "__func__", value) for name, value in vars(of).items()}
    return {n: weakref.ref(f) for n, f in bare.items() if isinstance(f, types.FunctionType)}
