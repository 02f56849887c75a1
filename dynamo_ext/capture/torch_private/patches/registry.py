"""Functions in the place of torch's own, for as long as a frame of ours compiles.

A user's own ``torch.compile`` elsewhere is untouched.
"""

import contextlib
import dis
import functools
import itertools
import types
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from torch._dynamo.symbolic_convert import InstructionTranslatorBase

_Function = TypeVar("_Function", bound="Callable[..., Any]")

wrappers: list[Callable[..., Any]] = []
"""What knows some values that come into a frame; gets what ``VariableBuilder._wrap`` gets."""

inliners: list[Callable[..., Any]] = []
"""What traces some functions; gets what ``build_inline_tracer`` gets."""

learned: list[Any] = []
"""Weak tables of what captures teach about code, and later ones of that code act on."""


class Traced:
    """What values code was first traced with, by source."""

    def __init__(self) -> None:
        self._values: weakref.WeakKeyDictionary[types.CodeType, dict[str, Any]]
        self._values = weakref.WeakKeyDictionary()
        learned.append(self._values)

    def varies(self, code: types.CodeType, source: str, value: Any) -> bool:
        """Whether ``code`` is or was traced with another value than the first from a source."""
        of_code = self._values.setdefault(code, {})
        first = of_code.setdefault(source, value)
        if first is value or first == value:
            return False
        of_code[source] = None
        return True


_patches: list[tuple[Any, str, Any]] = []
"""Owner, name, and what takes its place."""


@contextlib.contextmanager
def nothing_learned() -> Iterator[None]:
    """A block in which the tables of ``learned`` are empty; afterwards they are as they were."""
    held = [table.copy() for table in learned]
    for table in learned:
        table.clear()
    try:
        yield
    finally:
        for table, before in zip(learned, held, strict=True):
            table.clear()
            table.update(before)


def patches(owner: Any, *names: str) -> Callable[[_Function], _Function]:
    """Put a function in the place of ``owner.name``, or of the first of several names that exists.

    Its first argument is torch's own.
    """
    name = next((each for each in names if hasattr(owner, each)), names[0])
    upstream = getattr(owner, name)
    static = isinstance(vars(owner)[name], staticmethod)

    def patch(ours: _Function) -> _Function:
        @functools.wraps(upstream)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return ours(upstream, *args, **kwargs)

        _patches.append((owner, name, staticmethod(patched) if static else patched))
        return ours

    return patch


def patches_each(owners: Iterable[Any], *names: str) -> Callable[[_Function], _Function]:
    """As ``patches``, for every one of the names, of each of several owners."""

    def patch(ours: _Function) -> _Function:
        for owner, name in itertools.product(dict.fromkeys(owners), names):
            patches(owner, name)(ours)
        return ours

    return patch


def patches_instruction(*names: str) -> Callable[[_Function], _Function]:
    """As ``patches``, for what traces some of Python's instructions.

    Dynamo looks these up in a table of each class of translators.
    """

    def patch(ours: _Function) -> _Function:
        for translator in _translators(InstructionTranslatorBase):
            if translator not in _tables:
                _tables[translator] = list(translator.dispatch_table)
                _patches.append((translator, "dispatch_table", _tables[translator]))
            table = _tables[translator]
            for number in map(dis.opmap.__getitem__, names):
                table[number] = functools.partial(ours, table[number])
        return ours

    return patch


_tables: dict[type[Any], list[Any]] = {}
"""Our tables of instructions, by the class of translators."""


def _translators(translator: type[Any]) -> Iterator[type[Any]]:
    yield translator
    for each in translator.__subclasses__():
        yield from _translators(each)


def first_given(
    ours: Iterable[Callable[..., Any]], upstream: Callable[..., Any], *args: Any, **options: Any
) -> Any:
    """What the first of some functions gives that does not give ``None``, else torch's own."""
    given = (each(upstream, *args, **options) for each in ours)
    found = next((each for each in given if each is not None), None)
    return upstream(*args, **options) if found is None else found


@contextlib.contextmanager
def traced_our_way() -> Iterator[None]:
    """Trace with the patches within the block; the caller holds ``compile_lock``."""
    # As they are stored there: what an attribute gives may be another object (a static method).
    found = [vars(owner)[name] for owner, name, _ in _patches]
    for owner, name, ours in _patches:
        setattr(owner, name, ours)
    try:
        yield
    finally:
        for (owner, name, _), theirs in zip(_patches, found, strict=True):
            setattr(owner, name, theirs)
