"""Regions of Dynamo's cache: the compiled code of one is kept apart from all other code's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from torch._dynamo import eval_frame, guards

from dynamo_ext.capture.torch_private import frame_eval
from dynamo_ext.torch_private import version

if TYPE_CHECKING:
    import types
    from collections.abc import Callable


def new_region() -> int:
    """A number for compiled code that is kept apart from all other code's.

    From 2.13 on Dynamo's cache has regions (``torch.compile(isolate_recompiles=True)``): several
    backends on one function do not share its recompile limit.
    """
    version.require(version.COMPARE)
    return int(next(eval_frame._next_isolate_recompiles_id))


def call_in_region(
    region: int, callback: Any, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """``call_under`` with the compiled code of one region."""
    outer = eval_frame.set_eval_frame_isolate_recompiles_id(region)
    try:
        return frame_eval.call_under(callback, function, *args, **kwargs)
    finally:
        eval_frame.set_eval_frame_isolate_recompiles_id(outer)


def forget_region(code: types.CodeType, region: int) -> None:
    """Drop what a region holds for ``code``, and leave what others hold."""
    for entry in eval_frame._get_cache_entries_for_region(code, region):
        state: Any = getattr(entry.guard_manager, "extra_state", None)
        if state is not None:
            state.invalidate(entry, guards.DeletedGuardManagerWrapper("It was let go."))
