"""Every private torch interface that capture touches, in one place.

Checked on torch 2.13.0. Each function says which upstream name it leans on; a rename there
shows up as ``UnsupportedTorchError`` from ``check`` instead of as an odd failure in a cell.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import logging
import math
import time
import types
import warnings
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
import torch._dynamo as dynamo
from torch._dynamo import (
    bytecode_transformation,
    convert_frame,
    eval_frame,
    exc,
    external_utils,
    guards,
    symbolic_convert,
    trace_rules,
)
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.symbolic_convert import (
    InliningInstructionTranslator,
    InstructionTranslatorBase,
)
from torch._dynamo.types import ConvertFrameReturn, FrameAction, FrameExecStrategy
from torch._dynamo.variables import builder
from torch._dynamo.variables.lazy import LazyConstantVariable
from torch.autograd import forward_ad
from torch.nn.modules import transformer
from torch.utils import _python_dispatch

from dynamo_ext.errors import UnsupportedTorchError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from collections.abc import Set as AbstractSet

    from dynamo_ext.backends.base import CompilerFn

CHECKED_ON = ("2.13.0",)

_QUIET_LOGGERS = (
    "torch._dynamo",
    "torch._dynamo.convert_frame",
    "torch._dynamo.symbolic_convert",
    "torch._dynamo.utils",
    "torch._subclasses.fake_tensor",
    "torch.fx.experimental.symbolic_shapes",
    "torch._functorch",
    "torch._inductor",
)


# Our frames run while a callback is installed (leaving a `with`, nested sessions).
trace_rules.add("dynamo_ext")


def check() -> None:
    """Raise ``UnsupportedTorchError`` where this torch lacks what capture needs."""
    needed = (
        (eval_frame, "set_eval_frame"),
        (eval_frame, "always_optimize_code_objects"),
        (convert_frame, "register_bytecode_hook"),
        (dynamo_utils, "get_compilation_metrics"),
        (dynamo_utils, "graph_break_reasons"),
        (guards, "get_and_maybe_log_recompilation_reasons"),
        (InstructionTranslatorBase, "_load_global"),
        (InliningInstructionTranslator, "_load_global"),
        (InliningInstructionTranslator, "check_inlineable"),
        (builder, "is_int_specialization_case"),
        (builder.VariableBuilder, "_wrap"),
        (LazyConstantVariable, "create"),
        (builder.VariableBuilder, "wrap_module"),
        (OutputGraph, "_get_stack_values_to_restore"),
        (transformer, "_detect_is_causal_mask"),
        (symbolic_convert, "is_forbidden"),
        (eval_frame, "_stance"),
        (_python_dispatch, "_get_current_dispatch_mode_stack"),
        (eval_frame, "set_skip_guard_eval_unsafe"),
    )
    missing = [name for owner, name in needed if not hasattr(owner, name)]
    if missing:
        msg = f"torch {torch.__version__} has no {', '.join(missing)}, which capture needs."
        raise UnsupportedTorchError(msg, f"Use torch {CHECKED_ON[-1]}.")


def frame_callback(
    compiler: CompilerFn,
    *,
    dynamic: bool | None,
    fullgraph: bool,
    on_guards: Callable[[Any], None],
    on_guard_fail: Callable[[Any], None],
) -> tuple[Any, Callable[[], contextlib.AbstractContextManager[Any]]]:
    """Dynamo's own frame-evaluation callback for ``compiler``, and its backend's context.

    From ``torch._dynamo.optimize(...)``; the callback is what its context manager would install.
    It captures nothing where the environment has ``TORCHDYNAMO_DISABLE=1``.
    """
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
    return skip_frame()


class _Surroundings:
    """A block with the hooks of a torch context entered before it and left after it."""

    __slots__ = ("_hooks", "_undo")

    def __init__(self, hooks: tuple[Callable[[], Callable[[], object]], ...]) -> None:
        self._hooks = hooks

    def __enter__(self) -> None:
        self._undo = [enter() for enter in self._hooks]

    def __exit__(self, *_raised: object) -> None:
        for leave in self._undo:
            leave()


def switched_off(callback: Any) -> str:
    """The switch with which torch compiles nothing, as its user sets it; empty where none is set.

    ``callback`` is what ``frame_callback`` gave.
    """
    if callback is _skip:
        return "TORCHDYNAMO_DISABLE=1"
    return "torch._dynamo.config.disable" if dynamo.config.disable else ""


dispatch_modes = torch._C._len_torch_dispatch_stack
"""How many modes hear of every operation (a C function, of which compiled code asks at a call)."""

jit_trace = torch._C._get_tracing_state
"""What ``torch.jit.trace`` is making, or ``None``."""


def looked_at() -> bool:
    """Whether somebody looks at every operation now (``onlooker``), asked at each graph's call."""
    return bool(
        dispatch_modes() or jit_trace() is not None or forward_ad._current_level >= _FIRST_LEVEL
    )


_FIRST_LEVEL = 0
"""Of ``torch.autograd.forward_ad``, which has a negative one outside of all."""


def onlooker() -> str:
    """Who looks at every operation now, as its user calls it; empty where nobody does.

    Engines would read the memory of tensors that have none (``FakeTensorMode``), what compiled
    code gives would be a constant to who traces (``make_fx``, ``torch.jit.trace``), and have no
    tangent in forward mode.
    """
    if forward_ad._current_level >= _FIRST_LEVEL:
        return "forward_ad.dual_level"
    if torch.compiler.is_exporting():
        return "torch.export"
    if jit_trace() is not None:
        return "torch.jit.trace"
    modes = _python_dispatch._get_current_dispatch_mode_stack() if dispatch_modes() else []
    return type(modes[-1]).__name__.lstrip("_") if modes else ""


def stance() -> str:
    """What ``torch.compiler.set_stance`` was told last (``eval_frame._stance``)."""
    return eval_frame._stance.stance


def refuse_recompile(callback: Any, frame: Any, cache: Any, state: Any) -> Any:
    """Raise ``RuntimeError`` as the stance ``fail_on_recompile`` does for a frame of the user's."""
    refuse: Any = eval_frame._callback_from_stance(callback)
    return refuse(frame, cache, state)


def install(callback: Any) -> tuple[Any, bool]:
    """Make ``callback`` this thread's frame evaluator, as torch's stance has it.

    Gives what ``uninstall`` puts back.
    """
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


def backend_identity(callback: Any, compiler: CompilerFn) -> Any:
    """Mark ``callback`` so that Dynamo's cache takes its code for ``compiler``'s.

    The frame evaluator follows ``_torchdynamo_orig_backend`` (extra_state.cpp).
    """
    callback._torchdynamo_orig_backend = compiler
    return callback


def run_eagerly_now(*, callees_too: bool) -> ConvertFrameReturn:
    """Answer of a frame callback: this frame eagerly, this time, and forget it.

    With ``callees_too`` the functions it calls may reuse compiled code but never compile.
    """
    inner = FrameAction.RUN_ONLY if callees_too else FrameAction.DEFAULT
    return ConvertFrameReturn(
        frame_exec_strategy=FrameExecStrategy(FrameAction.DEFAULT, inner),
        apply_to_code=False,
    )


def plainly_now(_frame: Any, _cache: Any, _state: Any) -> ConvertFrameReturn:
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


def is_refusal(error: BaseException | None) -> bool:
    """Whether Dynamo raised since it could not capture a function whole."""
    return isinstance(error, exc.Unsupported)


def skip_frame() -> ConvertFrameReturn:
    """Answer of a frame callback: Dynamo has nothing to do with this code, ever.

    Unlike ``run_eagerly_now`` it leaves the callback alone while the frame runs, so that our own
    frames can take it out.
    """
    return ConvertFrameReturn()


def is_library_code(code: types.CodeType) -> bool:
    """Whether Dynamo never traces this code (torch itself, the standard library …)."""
    return bool(trace_rules.check(code))


def always_trace(code: types.CodeType) -> None:
    """Have Dynamo look at a frame even where no tensor is among its arguments.

    Its own test (``has_tensor_in_frame``) sees arguments and modules, not a namespace.
    """
    eval_frame.always_optimize_code_objects[code] = True


def recompile_reasons(frame: Any, compiler: Any) -> tuple[int, list[str]]:
    """How many compiled versions a frame has for ``compiler``, and why none of them fits."""
    entries = eval_frame._debug_get_cache_entry_list(frame.f_code)
    if not entries:
        return 0, []
    reasons = guards.get_and_maybe_log_recompilation_reasons(
        entries, frame, compiler, skip_logging=True
    )
    return len(entries), [str(reason) for reason in reasons]


def recompile_limit() -> int:
    """How many versions of a frame Dynamo compiles before it runs it eagerly for good."""
    return int(dynamo.config.recompile_limit)


def cached_versions(code: types.CodeType) -> int:
    """How many compiled versions of ``code`` Dynamo keeps."""
    return len(eval_frame._debug_get_cache_entry_list(code))


def users_code(code: types.CodeType | None) -> types.CodeType | None:
    """The user's own code, where a function of Dynamo's goes on with it after a graph break."""
    made = ContinueExecutionCache.generated_code_metadata.get(code)
    return made.code if made is not None else code


def forget_code(code: types.CodeType) -> None:
    """Drop every compiled version of ``code``, and the functions that resume it.

    ``ContinueExecutionCache`` keeps those, and the way back from them to ``code``; the cache of
    cleaned instructions keeps the last 128 code objects of anyone's.
    """
    resumed = ContinueExecutionCache.cache.get(code) or {}
    for inner in list(resumed.values()):
        forget_code(inner[0] if isinstance(inner, tuple) else inner)
    for table in (ContinueExecutionCache.cache, ContinueExecutionCache.generated_code_metadata):
        table.values.pop(id(code), None)
        table.refs.pop(id(code), None)
    bytecode_transformation._cached_cleaned_instructions.cache_clear()
    # Rewritten code may outlive its cache (2.13 keeps a reference after a graph break); what it
    # was compiled to, the large part, must not.
    for key, original in list(dynamo_utils.orig_code_map.values.items()):
        if original is code and key in dynamo_utils.CleanupManager.instance.values:
            dynamo_utils.CleanupManager.instance._remove_id(key)
    torch._C._dynamo.eval_frame.reset_code(code)


def forget_everything() -> None:
    """``torch._dynamo.reset()``: drop all compiled code in this process."""
    dynamo.reset()


def latest_metrics() -> Any:
    """The newest ``CompilationMetrics``, or ``None``."""
    known = dynamo_utils._compilation_metrics
    return known[-1] if known else None


def backward_compile_seconds(before: Any) -> float:
    """What compiling a backward graph took, if that is what came after ``before``.

    Reads ``CompilationMetrics.is_forward`` and ``backward_cumulative_compile_time_us``.
    """
    newest = latest_metrics()
    if newest is None or newest is before or newest.is_forward is not False:
        return 0.0
    return (newest.backward_cumulative_compile_time_us or 0) / 1e6


def compiled_backward(nodes: Iterable[Any]) -> Any:
    """The node of a graph that AOTAutograd compiled (``CompiledFunction``), if one of these is."""
    return next((n for n in nodes if type(n).__name__ == "CompiledFunctionBackward"), None)


_GUARD_BATCHES, _GUARD_CHECKS = 5, 10


def guard_check_seconds(result: Any, frame: types.FrameType) -> float:
    """What one check of a new frame's guards takes, warm; 0.0 where it was not compiled.

    Torch's own figure (``CompilationMetrics.guard_latency_us``, ``profile_guard_manager``) empties
    the processor's caches before each check, and is some twenty times as large.
    """
    guarded = getattr(result, "guarded_code", None)
    if guarded is None:
        return 0.0
    check, names, clock = guarded.guard_manager.root.check, frame.f_locals, time.perf_counter
    fastest = math.inf
    for _ in range(_GUARD_BATCHES):
        started = clock()
        for _ in range(_GUARD_CHECKS):
            check(names)
        fastest = min(fastest, clock() - started)
    return fastest / _GUARD_CHECKS


def current_compile_id() -> str:
    """Dynamo's id of the frame being compiled, as ``3/0``; empty outside a compile."""
    found = torch._guards.CompileContext.current_compile_id()
    return str(found) if found is not None else ""


def graph_break_count() -> int:
    """How many graph breaks this process has met, to take the newer ones with ``graph_breaks``."""
    return len(dynamo_utils.graph_break_reasons)


def graph_breaks(since: int) -> Sequence[Any]:
    """The ``GraphCompileReason`` of each break after the first ``since``."""
    return dynamo_utils.graph_break_reasons[since:]


def on_bytecode(hook: Any) -> Any:
    """Call ``hook(original, rewritten)`` for each compiled frame; ``remove()`` ends it."""
    return convert_frame.register_bytecode_hook(hook)


def move_cleanup(names: AbstractSet[str], source: dict[str, Any], target: dict[str, Any]) -> None:
    """Let Dynamo's end-of-life hooks for ``names`` delete from ``target`` and not ``source``.

    ``torch._dynamo.utils.CleanupManager`` removes a name when its compiled code dies.
    """
    for hooks in dynamo_utils.CleanupManager.instance.values.values():
        for hook in hooks:
            if hook.scope is source and hook.name in names:
                hook.scope = target


@contextlib.contextmanager
def failures_become_eager(*, fullgraph: bool) -> Iterator[None]:
    """A frame that cannot be compiled runs eagerly instead of raising torch's own error.

    NumPy is left to NumPy: traced, its calls become torch's, with other random numbers, aliasing
    and warnings than the cell has by itself. Python floats stay constants: as symbols they come
    back stale from Inductor and in float32 from AOTAutograd (both seen on 2.13.0). That a module
    has no hooks is guarded, which torch leaves out unless told: a hook added later would not run.
    ``addcmul_`` and its like stay what they are: torch writes them out as Inductor wants them, for
    which eager needs four times as long (a step of Adam's).
    """
    with dynamo.config.patch(
        suppress_errors=not fullgraph,
        trace_numpy=False,
        specialize_float=True,
        skip_nnmodule_hook_guards=False,
        enable_dynamo_decompositions=False,
    ):
        yield


_TORCH = str(Path(torch.__file__).parent)


def _show_others(show: Callable[..., None]) -> Callable[..., None]:
    def show_unless_torch(
        message: Any, category: Any, filename: str, *rest: Any, **more: Any
    ) -> None:
        if not str(filename).startswith(_TORCH):
            show(message, category, filename, *rest, **more)

    return show_unless_torch


class _Drop(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return record.levelno < logging.WARNING


@contextlib.contextmanager
def quiet_logs() -> Iterator[None]:
    """Keep torch's warnings about compiling off stderr: the report shows what they say.

    ``TORCH_LOGS`` output (below WARNING) still passes.
    """
    drop = _Drop()
    loggers = [logging.getLogger(name) for name in _QUIET_LOGGERS]
    loggers += [
        logger
        for name, logger in list(logging.Logger.manager.loggerDict.items())
        if name.startswith("torch._") and isinstance(logger, logging.Logger)
    ]
    for logger in loggers:
        logger.addFilter(drop)
    shown, warnings.showwarning = warnings.showwarning, _show_others(warnings.showwarning)
    try:
        yield
    finally:
        warnings.showwarning = shown
        for logger in loggers:
            logger.removeFilter(drop)


def is_module(target: object) -> TypeGuard[torch.nn.Module]:
    """Whether ``target`` is an ``nn.Module``."""
    return isinstance(target, torch.nn.Module)


def wrapped_module(module: torch.nn.Module, wrap: Callable[[Any], Any]) -> Any:
    """The module with its call wrapped, as torch.compile returns one."""
    return eval_frame.OptimizedModule(module, wrap)  # type: ignore[arg-type]


def optimized_module(
    module: torch.nn.Module, wrap: Callable[[Any], Any], report: Callable[[], Any]
) -> Any:
    """The module with its call wrapped, attributes and ``state_dict`` as torch.compile's.

    ``torch._dynamo.eval_frame.OptimizedModule`` asks its context only to wrap a callable. Copied
    or pickled, it is made again from copies of the three arguments.
    """
    made = wrapped_module(module, wrap)
    parts = (module, wrap, report)
    # On the object, since Dynamo sees through no class derived from torch's, and past its
    # __setattr__, which would write to the user's module. None of them holds `made` itself, which
    # so goes with its last reference.
    made.__dict__.update(
        report=report,
        # A module with a way of its own (a GraphModule) would be copied without its wrapping.
        __deepcopy__=lambda memo: optimized_module(*copy.deepcopy(parts, memo)),
        __reduce_ex__=lambda _protocol: (optimized_module, parts),
    )
    return made


def traceable(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, under a frame of its own where Dynamo would skip its frame (torch's code).

    The frame is ``torch._dynamo.external_utils.wrap_inline``'s, with code of its own: versions are
    counted by code, and what is wrapped would share one limit with all else that is.
    """
    code = getattr(function, "__code__", None)
    inner = getattr(function, "__func__", None)
    code = code or getattr(inner, "__code__", None)
    if code is not None and not trace_rules.check(code):
        return function
    owner = getattr(function, "__self__", None)
    target: Any = owner if is_module(owner) and inner is type(owner).__call__ else function
    name = type(target).__name__ if is_module(target) else getattr(target, "__name__", "function")
    shared: Any = external_utils.wrap_inline(target)
    try:
        known = _frames.setdefault(owner if owner is not None else target, {})
    except TypeError:  # what has no hash, or no weak reference
        known = {}
    named = known.get(name)
    if named is None:
        named = shared.__code__.replace(co_name=name, co_qualname=name, co_freevars=(name,))
        known[name] = named
    own = types.FunctionType(named, shared.__globals__, name, None, shared.__closure__)
    functools.update_wrapper(own, function)
    return own


# Found again by whoever wraps the same object later: `run` uses what `optimize` compiled.
_frames: weakref.WeakKeyDictionary[Any, dict[str, types.CodeType]] = weakref.WeakKeyDictionary()


def wrapped_by(frame: types.FrameType) -> Callable[..., Any] | None:
    """What runs under a frame that ``traceable`` made; ``None`` for any other frame."""
    code = frame.f_code
    made = code.co_filename == external_utils.__file__ and code.co_varnames == ("args", "kwargs")
    found: Callable[..., Any] | None = frame.f_locals.get(code.co_freevars[0]) if made else None
    return found


def input_shapes(graph: torch.fx.GraphModule) -> dict[str, tuple[str, ...]]:
    """The captured sizes of a graph's tensor inputs by Dynamo's source (``L['x']``)."""
    shapes = {}
    for node in graph.graph.find_nodes(op="placeholder"):
        source = getattr(node.meta.get("grapharg"), "source", None)
        value = node.meta.get("example_value")
        if source is not None and isinstance(value, torch.Tensor):
            shapes[source.name] = tuple(str(size) for size in value.shape)
    return shapes


def guarded_class(guard: Any) -> type | None:
    """The class of what a guard looks at, or that class itself; ``None`` where it has gone."""
    seen = guard.obj_weakref() if guard.obj_weakref is not None else None
    if isinstance(seen, type):
        return seen
    found = guard.guarded_class_weakref() if guard.guarded_class_weakref is not None else None
    return found if isinstance(found, type) else None


def finish_code(graph: torch.fx.GraphModule) -> None:
    """Generate a captured graph's code now.

    Dynamo's graphs generate it at the first call, and a ``forward`` taken before that goes the
    long way round at every call, printing the generated code where it raises.
    """
    from torch.fx._lazy_graph_module import _LazyGraphModule

    _LazyGraphModule.force_recompile(graph)


def is_overload(target: object) -> bool:
    """Whether an FX target is one overload of an operator (``aten.add.Tensor``)."""
    return isinstance(target, torch._ops.OpOverload)


def marked_static(inputs: Sequence[Any]) -> list[weakref.ref[Any]]:
    """The parameters and buffers that tracing has marked as such, on the user's own tensors.

    ``_dynamo_static_input_type`` goes into ``vars(parameter)``, and so into copies and files.
    """
    found = []
    for value in inputs:
        kind = getattr(value, "_dynamo_static_input_type", None)
        if kind == "unguarded" and isinstance(value, torch.Tensor):
            found.append(weakref.ref(value))
    return found


def unmark_static(tensors: Sequence[weakref.ref[Any]]) -> None:
    """Take the marks off again; tracing sets them anew each time it needs them."""
    for reference in tensors:
        value = reference()
        if value is not None:
            vars(value).pop("_dynamo_static_input_type", None)


def new_region() -> int:
    """A number for compiled code that is kept apart from all other code's.

    From 2.13 on Dynamo's cache has regions (``torch.compile(isolate_recompiles=True)``): several
    backends on one function do not share its recompile limit.
    """
    return int(next(eval_frame._next_isolate_recompiles_id))


def call_in_region(
    region: int, callback: Any, function: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """``call_under`` with the compiled code of one region."""
    outer = eval_frame.set_eval_frame_isolate_recompiles_id(region)
    prior, skipping = install(callback)
    try:
        return function(*args, **kwargs)
    finally:
        eval_frame.set_eval_frame(prior)
        eval_frame.set_skip_guard_eval_unsafe(skipping)
        eval_frame.set_eval_frame_isolate_recompiles_id(outer)


def forget_region(code: types.CodeType, region: int) -> None:
    """Drop what a region holds for ``code``, and leave what others hold."""
    for entry in eval_frame._get_cache_entries_for_region(code, region):
        state: Any = getattr(entry.guard_manager, "extra_state", None)
        if state is not None:
            state.invalidate(
                entry, torch._dynamo.guards.DeletedGuardManagerWrapper("It was let go.")
            )
