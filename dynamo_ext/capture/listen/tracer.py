"""From a backend's compiler and a few flags to the callback that Dynamo runs frames under."""

import contextlib
import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from dynamo_ext.capture.listen import compiling, run_log
from dynamo_ext.capture.listen.frame_listener import FrameListener
from dynamo_ext.capture.listen.graph_recorder import RecordedCompiler, recorded
from dynamo_ext.capture.listen.reuse_listener import ReuseListener
from dynamo_ext.capture.torch_private import frame_eval, regions
from dynamo_ext.capture.torch_private.patches import containers


@dataclass(frozen=True)
class Tracer:
    """A frame callback and the contexts that its calls need (``dynamic`` sets a torch flag)."""

    callback: Any
    compiler: RecordedCompiler | None
    surroundings: Callable[[], contextlib.AbstractContextManager[Any]]
    fullgraph: bool = False


def optimizing(
    compiler: Any,
    *,
    dynamic: bool | None = None,
    fullgraph: bool = False,
    names: HiddenNames | None = None,
    alone: bool = False,
) -> Tracer:
    """Capture and compile what has not been seen, reuse what has; share nothing if ``alone``."""
    containers.look_at_them()
    heard = (
        RecordedCompiler(compiler)
        if alone
        else recorded(compiler, dynamic=dynamic, fullgraph=fullgraph)
    )
    callback, surroundings = frame_eval.frame_callback(
        heard,
        dynamic=dynamic,
        fullgraph=fullgraph,
        on_guards=compiling.note_guards,
        on_guard_fail=compiling.note_guard_failure,
    )
    if alone:
        surroundings = functools.partial(_alone, heard, surroundings)
    listener = FrameListener(callback, heard, fullgraph=fullgraph, names=names)
    return Tracer(listener, heard, surroundings, fullgraph)


@contextlib.contextmanager
def _alone(
    compiler: RecordedCompiler, inner: Callable[[], contextlib.AbstractContextManager[Any]]
) -> Iterator[None]:
    run = run_log.active_run() or run_log.RunLog()
    with regions.alone(compiler, lambda: [entry.code() for entry in run.compiled]), inner():
        yield


def reusing(compiler: RecordedCompiler | None) -> Tracer:
    """Reuse only: what ``compiler`` compiled is used, and nothing is compiled, ever."""
    return Tracer(ReuseListener(compiler), compiler, contextlib.nullcontext)
