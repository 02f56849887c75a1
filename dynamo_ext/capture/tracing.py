"""From a backend's compiler and a few flags to the callback that Dynamo runs frames under."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dynamo_ext.capture import recorder, torch_private
from dynamo_ext.capture.recorded_compiler import RecordedCompiler, forget_recorded, recorded
from dynamo_ext.capture.reuse_listener import ReuseListener

if TYPE_CHECKING:
    from collections.abc import Callable

    from dynamo_ext.backends.base import CompilerFn
    from dynamo_ext.capture.hidden_names import HiddenNames


@dataclass(frozen=True)
class Tracer:
    """A frame callback and the contexts that its calls need (``dynamic`` sets a torch flag)."""

    callback: Any
    compiler: RecordedCompiler | None
    surroundings: Callable[[], contextlib.AbstractContextManager[Any]]
    fullgraph: bool = False


def optimizing(
    compiler: CompilerFn,
    name: str,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    names: HiddenNames | None = None,
) -> Tracer:
    """Capture and compile what has not been seen, reuse what has."""
    torch_private.check()
    heard = recorded(compiler, name, dynamic=dynamic, fullgraph=fullgraph)
    callback, surroundings = torch_private.frame_callback(
        heard,
        dynamic=dynamic,
        fullgraph=fullgraph,
        on_guards=recorder.note_guards,
        on_guard_fail=recorder.note_guard_failure,
    )
    listener = recorder.FrameListener(
        callback, heard, reuse=ReuseListener(heard), fullgraph=fullgraph, names=names
    )
    return Tracer(listener, heard, surroundings, fullgraph)


def reusing(compiler: RecordedCompiler | None) -> Tracer:
    """Reuse only: what ``compiler`` compiled is used, and nothing is compiled, ever."""
    torch_private.check()
    return Tracer(ReuseListener(compiler), compiler, contextlib.nullcontext)


def forget(compiler: CompilerFn) -> None:
    """Let go of a compiler that was made for one purpose (a comparison)."""
    forget_recorded(compiler)
