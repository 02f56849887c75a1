"""Dynamo's cache of compiled code: its guards, why they failed, and forgetting it."""

import contextlib
import types
import weakref
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

import torch.compiler.config
from torch._dynamo import bytecode_transformation, eval_frame, guards, pgo
from torch._dynamo import utils as dynamo_utils
from torch._dynamo.resume_execution import ContinueExecutionCache
from torch._dynamo.types import FrameAction, FrameExecStrategy


def entries(code: types.CodeType, compiler: Any) -> list[Any]:
    """What Dynamo's cache has for ``code`` of one compiler's, the newest first."""
    found = eval_frame._debug_get_cache_entry_list(code)
    return [entry for entry in found if entry.backend is compiler]


def recompile_reasons(frame: Any, compiler: Any) -> tuple[int, list[str]]:
    """How many compiled versions a frame has for ``compiler``, and why none of them fits."""
    found = entries(frame.f_code, compiler)
    reasons = [
        guards.get_guard_fail_reason(
            entry.guard_manager,
            entry.code,
            frame.f_locals,
            entry.compile_id,
            compiler,
            skip_logging=True,
        )
        for entry in found
    ]
    return len(found), [reason for reason in reasons if reason]


def recompile_limit() -> int:
    """How many versions of a frame Dynamo compiles before it runs it eagerly for good."""
    return torch.compiler.config.recompile_limit


def guard_managers(code: types.CodeType) -> list[Any]:
    """What holds the guards of each compiled version of ``code``."""
    return [entry.guard_manager for entry in eval_frame._debug_get_cache_entry_list(code)]


def new_guards(result: Any) -> Any:
    """What holds the guards of a frame that the callback has just compiled (``result``), if any."""
    guarded = getattr(result, "guarded_code", None)
    return guarded.guard_manager if guarded is not None else None


def guard_also(manager: Any, check: Callable[[Any], bool], text: str) -> None:
    """Add a guard to those that ``guard_managers`` or ``new_guards`` gave."""
    manager.root.add_lambda_guard(check, [text], None)


def draws_first(rewritten: types.CodeType) -> bool:
    """Whether compiled code draws Python's random numbers before its graph (``OutputGraph``)."""
    return any(name.startswith("__gen_rand_values") for name in rewritten.co_names)


def forget_entry(entry: Any) -> None:
    """Drop one compiled version of ``entries``, and leave the others of its code."""
    state: Any = getattr(entry.guard_manager, "extra_state", None)
    if state is not None:
        state.invalidate(entry, guards.DeletedGuardManagerWrapper("It was let go."))


def forget_version(code: types.CodeType, rewritten: types.CodeType | None) -> None:
    """Drop the version of ``code`` that was compiled to ``rewritten``."""
    for entry in eval_frame._debug_get_cache_entry_list(code):
        if entry.code is rewritten:
            forget_entry(entry)


_left_to_python: weakref.WeakSet[types.CodeType] = weakref.WeakSet()


def leave_to_python(code: types.CodeType, *, callees: bool = False) -> None:
    """Have compiled code run in Python until ``look_again``, and what it calls where asked."""
    inside = FrameAction.SKIP if callees else FrameAction.DEFAULT
    eval_frame.set_code_exec_strategy(code, FrameExecStrategy(FrameAction.SKIP, inside))
    _left_to_python.add(code)


def look_again() -> None:
    """Have what was left to Python run compiled again, or be captured, at its next call."""
    usual = FrameExecStrategy(FrameAction.DEFAULT, FrameAction.DEFAULT)
    for code in list(_left_to_python):
        eval_frame.set_code_exec_strategy(code, usual)
    _left_to_python.clear()


@contextlib.contextmanager
def left_to_python(codes: Mapping[types.CodeType, bool]) -> Iterator[None]:
    """A block in which codes run in Python, those with true and what they call."""
    for code, callees in codes.items():
        leave_to_python(code, callees=callees)
    try:
        yield
    finally:
        look_again()


def users_code(code: types.CodeType | None) -> types.CodeType | None:
    """The user's own code, where a function of Dynamo's goes on with it after a graph break."""
    made = ContinueExecutionCache.generated_code_metadata.get(code)
    return made.code if made is not None else code


def resuming(code: types.CodeType) -> list[types.CodeType]:
    """The code of Dynamo's functions that go on with ``code`` after its graph breaks."""
    made = list((ContinueExecutionCache.cache.get(code) or {}).values())
    return [each[0] if isinstance(each, tuple) else each for each in made]


def forget_code(code: types.CodeType) -> None:
    """Drop every compiled version of ``code``, and the functions that resume it.

    The cache of cleaned instructions keeps the last 128 code objects of any caller's.
    """
    for inner in resuming(code):
        forget_code(inner)
    for table in (ContinueExecutionCache.cache, ContinueExecutionCache.generated_code_metadata):
        table.values.pop(id(code), None)
        table.refs.pop(id(code), None)
    bytecode_transformation._cached_cleaned_instructions.cache_clear()
    # Rewritten code may outlive its cache (2.13 keeps a reference after a graph break); what it
    # was compiled to, the large part, must not.
    for key, original in list(dynamo_utils.orig_code_map.values.items()):
        if original is code and key in dynamo_utils.CleanupManager.instance.values:
            dynamo_utils.CleanupManager.instance._remove_id(key)
    gone = guard_managers(code)
    torch._C._dynamo.eval_frame.reset_code(code)
    _forget_guards(gone)


def _forget_guards(gone: Sequence[Any]) -> None:
    """Let go of the guards of compiled code that is gone.

    ``CheckFunctionManager.id_ref`` keeps them as long as what they look at: a class, a library.
    """
    held = set(map(id, gone))
    for finalizer in list(weakref.finalize._registry) if held else ():  # type: ignore[attr-defined]
        _, call, *_ = finalizer.peek() or (None, None)
        manager = getattr(getattr(call, "func", None), "__self__", None)
        if not isinstance(manager, guards.CheckFunctionManager):
            continue
        if id(getattr(manager, "guard_manager", None)) in held:
            finalizer.detach()


learned: list[Any] = []
"""Weak tables of what captures teach about code, and later ones of that code act on."""


@contextlib.contextmanager
def nothing_known() -> Iterator[None]:
    """A block in which Dynamo makes the rests of functions again, and knows no sizes that changed.

    The tables of ``learned`` are empty in it. Afterwards all is as it was. The caller holds no
    lock: other threads that compile meanwhile learn nothing that stays.
    """
    look_again()
    rests, sizes = ContinueExecutionCache, pgo._CODE_STATE
    held = rests.cache, rests.generated_code_metadata
    lessons = [table.copy() for table in learned]
    try:
        rests.cache, rests.generated_code_metadata = (type(table)() for table in held)
        pgo._CODE_STATE = defaultdict(pgo.CodeState)
        for table in learned:
            table.clear()
        yield
    finally:
        rests.cache, rests.generated_code_metadata = held
        pgo._CODE_STATE = sizes
        for table, before in zip(learned, lessons, strict=True):
            table.clear()
            table.update(before)


def move_cleanup(names: AbstractSet[str], source: dict[str, Any], target: dict[str, Any]) -> None:
    """Have the end-of-life hooks for ``names`` (``CleanupManager``) delete from ``target``."""
    for hooks in dynamo_utils.CleanupManager.instance.values.values():
        for hook in hooks:
            if hook.scope is source and hook.name in names:
                hook.scope = target
    # Since 2.14 a hook deletes only what is still listed as its own.
    owners: dict[tuple[int, str], object] = getattr(dynamo_utils, "_cleanup_owners", {})
    for name in names:
        if (id(source), name) in owners:
            owners[id(target), name] = owners.pop((id(source), name))


def guarded_class(guard: Any) -> type | None:
    """The class of what a guard looks at, or that class itself; ``None`` where it has gone."""
    seen = guard.obj_weakref() if guard.obj_weakref is not None else None
    if isinstance(seen, type):
        return seen
    found = guard.guarded_class_weakref() if guard.guarded_class_weakref is not None else None
    return found if isinstance(found, type) else None


def marked_static(inputs: Sequence[Any]) -> list[weakref.ref[Any]]:
    """The tensors that tracing has marked as static, in ``vars(tensor)`` and so in copies."""
    tensors = (value for value in inputs if isinstance(value, torch.Tensor))
    return [weakref.ref(t) for t in tensors if getattr(t, _STATIC, None) == "unguarded"]


def unmark_static(tensors: Sequence[weakref.ref[Any]]) -> None:
    """Take the marks off again; tracing sets them again each time it needs them."""
    for value in (reference() for reference in tensors):
        if value is not None:
            vars(value).pop(_STATIC, None)


_STATIC = "_dynamo_static_input_type"
