"""Functions in the place of torch's own, for as long as a frame of ours compiles.

A user's own ``torch.compile`` elsewhere is untouched. Checked, as all private interfaces, on the
versions of ``torch_private``.
"""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import types
    from collections.abc import Callable, Iterator, Sequence

_Function = TypeVar("_Function", bound="Callable[..., Any]")

wrappers: list[Callable[..., Any]] = []
"""What knows some values that come into a frame; gets what ``VariableBuilder._wrap`` gets."""

on_recompile: list[Callable[[types.CodeType, Sequence[str]], object]] = []
"""What learns from why none of a frame's versions fits, the newest first."""

_patches: list[tuple[Any, str, Any]] = []
"""Owner, name, and what takes its place."""


def patches(owner: Any, name: str) -> Callable[[_Function], _Function]:
    """Put a function in the place of ``owner.name``; its first argument is torch's own."""
    upstream = getattr(owner, name)
    static = isinstance(vars(owner)[name], staticmethod)

    def patch(ours: _Function) -> _Function:
        @functools.wraps(upstream)
        def patched(*args: Any, **kwargs: Any) -> Any:
            return ours(upstream, *args, **kwargs)

        _patches.append((owner, name, staticmethod(patched) if static else patched))
        return ours

    return patch


class _Blocks:
    """How many blocks hold the patches, and what was there before."""

    depth = 0
    theirs: tuple[Any, ...] = ()


@contextlib.contextmanager
def traced_our_way() -> Iterator[None]:
    """Trace with the patches for the length of the block.

    The caller holds ``frame_eval.compile_lock``.
    """
    _Blocks.depth += 1
    if _Blocks.depth == 1:
        # As they are stored there: what an attribute gives may be another object (a static method).
        _Blocks.theirs = tuple(vars(owner)[name] for owner, name, _ in _patches)
        for owner, name, ours in _patches:
            setattr(owner, name, ours)
    try:
        yield
    finally:
        _Blocks.depth -= 1
        if _Blocks.depth == 0:
            for (owner, name, _), theirs in zip(_patches, _Blocks.theirs, strict=True):
                setattr(owner, name, theirs)
