"""Dynamo's frame callback: making and installing it, and calling under it."""

import contextlib
import functools
from collections.abc import Callable
from typing import Any

import torch._dynamo as dynamo
from torch._dynamo import eval_frame, trace_rules

from dynamo_ext.backends.base import CompilerFn
from dynamo_ext.capture.torch_private import compile_settings, frame_answers

# Our frames run while a callback is installed (leaving a `with`, nested sessions).
trace_rules.add("dynamo_ext")


def frame_callback(
    compiler: CompilerFn,
    *,
    dynamic: bool | None,
    fullgraph: bool,
    on_guards: Callable[[Any], None],
    on_guard_fail: Callable[[Any], None],
) -> tuple[Any, Callable[[], contextlib.AbstractContextManager[Any]]]:
    """Dynamo's own frame callback for ``compiler``, and its backend's context.

    It captures nothing where the environment has ``TORCHDYNAMO_DISABLE=1``.
    """
    with compile_settings.capture_settings():
        context: Any = dynamo.optimize(
            compiler,
            nopython=fullgraph,
            guard_export_fn=on_guards,
            guard_fail_fn=on_guard_fail,
            dynamic=dynamic,
        )
    hooks = tuple(getattr(context, "enter_exit_hooks", ()))
    callback = getattr(context, "callback", frame_answers.skip_permanently)
    return callback, functools.partial(_Surroundings, hooks)


class _Surroundings:
    __slots__ = ("_hooks", "_undo")

    def __init__(self, hooks: tuple[Callable[[], Callable[[], object]], ...]) -> None:
        self._hooks = hooks

    def __enter__(self) -> None:
        self._undo = [enter() for enter in self._hooks]

    def __exit__(self, *_raised: object) -> None:
        for leave in self._undo:
            leave()


ENVIRONMENT_SWITCH = "TORCHDYNAMO_DISABLE=1"
"""What torch reads once, when it is imported."""


def switched_off(callback: Any) -> str:
    """The switch that keeps torch from compiling, as its user sets it; empty where none is."""
    if callback is frame_answers.skip_permanently:
        return ENVIRONMENT_SWITCH
    return "torch._dynamo.config.disable" if dynamo.config.disable else ""


def stance() -> str:
    """The last argument of ``torch.compiler.set_stance`` (``eval_frame._stance``)."""
    return eval_frame._stance.stance


def install(callback: Any) -> tuple[Any, bool]:
    """Make ``callback`` this thread's, as torch's stance has it; what ``uninstall`` puts back."""
    told = eval_frame._stance
    skipping = eval_frame.set_skip_guard_eval_unsafe(told.skip_guard_eval_unsafe)
    callback = None if told.stance == "force_eager" else callback
    return eval_frame.set_eval_frame(callback), skipping


def uninstall(former: tuple[Any, bool]) -> None:
    """Put back what ``install`` found."""
    callback, skipping = former
    eval_frame.set_eval_frame(callback)
    eval_frame.set_skip_guard_eval_unsafe(skipping)


def call_under(callback: Any, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call ``function`` alone under ``callback``; this frame itself is not evaluated by it."""
    prior, skipping = install(callback)
    try:
        return function(*args, **kwargs)
    finally:
        # As uninstall does, which as a function would itself be evaluated by the callback.
        eval_frame.set_eval_frame(prior)
        eval_frame.set_skip_guard_eval_unsafe(skipping)


def backend_identity(callback: Any, compiler: CompilerFn) -> None:
    """Mark ``callback`` so that its code is found as ``compiler``'s (extra_state.cpp)."""
    callback._torchdynamo_orig_backend = compiler
