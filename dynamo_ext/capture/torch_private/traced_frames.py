"""Which frames Dynamo traces, and what they hold."""

import contextlib
import inspect
import types
from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._dynamo import convert_frame, eval_frame, external_utils, trace_rules
from torch._dynamo.symbolic_convert import InstructionTranslatorBase

from dynamo_ext.interruptions import failures


def is_library_code(code: types.CodeType, frame: types.FrameType | None = None) -> bool:
    """Whether Dynamo never traces this code (torch itself, the standard library …).

    In a ``frame`` of its own it does trace a layer of torch's that has hooks, from torch 2.12 on.
    """
    about: dict[str, Any] = {"frame": frame} if _CHECKS_FRAMES else {}
    return trace_rules.check(code, **about)


_CHECKS_FRAMES = "frame" in inspect.signature(trace_rules.check).parameters


def has_nothing_to_trace(frame: types.FrameType) -> bool:
    """Whether Dynamo leaves a frame alone for good, since nothing in it is a tensor or a module.

    The caller holds ``compile_lock``: settings are put back as they were found.
    """
    if inspect.CO_GENERATOR & frame.f_code.co_flags or _names_tensor(frame):
        return False
    # As in `capture_settings`: NumPy's arrays are not traced.
    try:
        with dynamo.config.patch(trace_numpy=False):
            return not convert_frame.has_tensor_in_frame(frame)
    except failures():  # a user's `__class__` may raise: `convert` answers
        return False


def always_trace(code: types.CodeType) -> None:
    """Have Dynamo look at a frame that has no tensor or module among its arguments."""
    eval_frame.always_optimize_code_objects[code] = True


@contextlib.contextmanager
def traced_for_its_names(frame: types.FrameType) -> Iterator[None]:
    """``always_trace`` a frame that works on a global's or attribute's tensor or module."""
    code, always = frame.f_code, eval_frame.always_optimize_code_objects
    waits = code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR)
    if waits or code in always or not _names_tensor(frame):
        yield
        return
    always[code] = True
    try:
        yield
    finally:
        # The user's own torch.compile of this code is to find what it always has.
        always._remove_id(id(code))


def _names_tensor(frame: types.FrameType) -> bool:
    return any(
        issubclass(type(held.get(name)), (torch.Tensor, torch.nn.Module))
        for held in (frame.f_globals, *map(attributes, frame.f_locals.values()))
        for name in frame.f_code.co_names
    )


def attributes(value: Any) -> dict[str, Any]:
    """What an object's own dictionary holds; empty where it has none."""
    # Neither a property nor `__getattr__` of the user's is to run for this.
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict else {}


def wrapped_by(frame: types.FrameType) -> Callable[..., Any] | None:
    """What runs under a frame that ``traceable`` made; ``None`` for any other frame."""
    code = frame.f_code
    made = code.co_filename == external_utils.__file__ and code.co_varnames == ("args", "kwargs")
    found: Callable[..., Any] | None = frame.f_locals.get(code.co_freevars[0]) if made else None
    return found


def line_traced(error: BaseException, code: types.CodeType) -> int | None:
    """The line of ``code`` that Dynamo had come to when ``error`` ended its trace."""
    owners = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    tracers = (own for own in owners if issubclass(type(own), InstructionTranslatorBase))
    return next((tracer.lineno for tracer in tracers if tracer.f_code is code), None)  # type: ignore[union-attr]
