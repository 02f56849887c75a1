"""Dynamo's frame callback: installing it, calling under it, and what it may answer."""

import contextlib
import functools
import inspect
import types
from collections.abc import Callable, Iterator
from traceback import walk_tb
from typing import Any

import torch
import torch._dynamo as dynamo
from torch._dynamo import convert_frame, eval_frame, exc, external_utils, trace_rules
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy

from dynamo_ext.backends.base import CompilerFn
from dynamo_ext.capture.torch_private import compile_settings
from dynamo_ext.interruptions import pass_on

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
    callback = getattr(context, "callback", _skip)
    return callback, functools.partial(_Surroundings, hooks)


def _skip(_frame: Any, _cache: Any, _state: Any) -> ConvertFrameReturn:
    return skip_permanently()


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
    if callback is _skip:
        return ENVIRONMENT_SWITCH
    return "torch._dynamo.config.disable" if dynamo.config.disable else ""


def stance() -> str:
    """The last argument of ``torch.compiler.set_stance`` (``eval_frame._stance``)."""
    return eval_frame._stance.stance


def refuse_recompile(callback: Any, frame: Any, cache: Any, state: Any) -> Any:
    """Raise ``RuntimeError`` as the stance ``fail_on_recompile`` does for a frame of the user's."""
    refuse: Any = eval_frame._callback_from_stance(callback)
    return refuse(frame, cache, state)


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


def run_eagerly_once(*, callees_too: bool) -> ConvertFrameReturn:
    """Answer of a frame callback: this frame eagerly, this time, and forget it.

    With ``callees_too`` the functions it calls may reuse compiled code but never compile.
    """
    inner = FrameAction.RUN_ONLY if callees_too else FrameAction.DEFAULT
    return ConvertFrameReturn(
        frame_exec_strategy=FrameExecStrategy(FrameAction.DEFAULT, inner),
        apply_to_code=False,
    )


def compile_nothing_once(_frame: Any, _cache: Any, _state: Any) -> ConvertFrameReturn:
    """A frame callback: the frame runs eagerly, what it calls as compiled as it is."""
    return run_eagerly_once(callees_too=True)


def skip_recursively_once(_frame: Any, _cache: Any, _state: Any) -> ConvertFrameReturn:
    """A frame callback: the frame and what it calls run as plain Python, and it is forgotten."""
    return ConvertFrameReturn(
        frame_exec_strategy=FrameExecStrategy(FrameAction.SKIP, FrameAction.SKIP),
        apply_to_code=False,
    )


_OWN = frozenset({"Observed exception", "failed to find name in frame builtins"})
"""Graph breaks that stand for an error which the code raises in eager, too."""


def is_users_own(error: Exception) -> bool:
    """Whether tracing failed where the user's code itself, by all appearances, raises an error."""
    if isinstance(error, exc.Unsupported):
        return error.gb_type in _OWN
    return isinstance(error, exc.TorchRuntimeError)


def line_traced(error: BaseException, code: types.CodeType) -> int | None:
    """The line of ``code`` that Dynamo had come to when ``error`` ended its trace."""
    owners = (frame.f_locals.get("self") for frame, _ in walk_tb(error.__traceback__))
    tracers = (own for own in owners if issubclass(type(own), InstructionTranslatorBase))
    return next((tracer.lineno for tracer in tracers if tracer.f_code is code), None)  # type: ignore[union-attr]


def skip_permanently() -> ConvertFrameReturn:
    """Answer of a frame callback: Dynamo has nothing to do with this code, ever.

    It leaves the callback alone while the frame runs, so that our own frames can take it out.
    """
    return ConvertFrameReturn()


leave_to_python = eval_frame.skip_code
"""As ``skip_permanently``, of code that is compiled already."""


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
    except Exception as error:  # noqa: BLE001 - a user's `__class__` may raise: `convert` answers
        pass_on(error)
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


compile_lock = convert_frame.compile_lock
"""What torch itself holds while a frame compiles; a thread may take it again."""


heard_bytecode = convert_frame.register_bytecode_hook
"""A block in which a hook gets the code of each frame that is compiled, and what it became."""


def convert(callback: Any, frame: Any, cache: Any, state: Any) -> ConvertFrameReturn:
    """Dynamo's answer for a frame, by the callback that ``frame_callback`` gave.

    As under ``suppress_errors``, a frame that cannot be compiled runs eagerly from now on. Raises
    what torch raises all the same, and what interrupted it, which torch would swallow.
    """
    try:
        return callback(frame, cache, state)  # type: ignore[no-any-return]
    except _NEVER_SUPPRESSED as error:
        pass_on(error)
        raise
    except Exception as error:  # noqa: BLE001 - torch has more kinds than it names
        pass_on(error)
        strategy = getattr(error, "frame_exec_strategy", None)
        if strategy is not None:
            return ConvertFrameReturn(frame_exec_strategy=strategy)
        return ConvertFrameReturn(skip_reason="it could not be compiled")


_NEVER_SUPPRESSED = (
    exc.ResumePrologueTracingError,
    exc.UncapturedHigherOrderOpError,
    # Of other frames, torch has made a graph break or a skipped frame already.
    exc.Unsupported,
    exc.UserError,
)


def wrapped_by(frame: types.FrameType) -> Callable[..., Any] | None:
    """What runs under a frame that ``traceable`` made; ``None`` for any other frame."""
    code = frame.f_code
    made = code.co_filename == external_utils.__file__ and code.co_varnames == ("args", "kwargs")
    found: Callable[..., Any] | None = frame.f_locals.get(code.co_freevars[0]) if made else None
    return found
