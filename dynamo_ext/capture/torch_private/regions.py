"""Regions of Dynamo's cache: the compiled code of one is kept apart from all other code's.

Torch 2.11 and 2.12 have none: there each backend's own versions are distinguished by the backend.
"""

import contextlib
import itertools
import types
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from torch._dynamo import eval_frame

from dynamo_ext.capture.torch_private import code_cache, frame_eval

_NONE = -1
"""Torch's number of what is in no region."""

_numbers: Any = getattr(eval_frame, "_next_isolate_recompiles_id", itertools.repeat(_NONE))
_enter: Any = getattr(eval_frame, "set_eval_frame_isolate_recompiles_id", lambda _region: _NONE)


def new_region() -> int:
    """A number for compiled code apart from all other's, with a recompile limit of its own."""
    return int(next(_numbers))


def call_in_region(
    region: int, callback: Any, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """``call_under`` with the compiled code of one region."""
    outer = _enter(region)
    try:
        return frame_eval.call_under(callback, function, *args, **kwargs)
    finally:
        _enter(outer)


def forget_region(code: types.CodeType, region: int, compiler: Any) -> None:
    """Drop what a compiler has for ``code`` in a region, and leave what others have."""
    for entry in code_cache.entries(code, compiler):
        if getattr(entry, "isolate_recompiles_id", _NONE) == region:
            code_cache.forget_entry(entry)


@contextlib.contextmanager
def alone(compiler: Any, compiled: Callable[[], Iterable[types.CodeType | None]]) -> Iterator[None]:
    """A block whose code finds nothing that was compiled or learned before, and leaves nothing.

    ``compiled`` gives what was compiled for ``compiler`` in it, which goes at the end.
    """
    region = new_region()
    outer = _enter(region)
    try:
        with code_cache.nothing_known():
            yield
    finally:
        _enter(outer)
        for code in compiled():
            if code is not None:
                forget_region(code, region, compiler)


def own_limit(code: types.CodeType, compiler: Any) -> dict[str, int]:
    """Settings of Dynamo's with which others' versions do not count for the recompile limit."""
    if hasattr(eval_frame, "_next_isolate_recompiles_id"):
        return {}
    others = len(code_cache.guard_managers(code)) - len(code_cache.entries(code, compiler))
    return {"recompile_limit": code_cache.recompile_limit() + others} if others else {}
