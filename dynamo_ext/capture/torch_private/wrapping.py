"""Wrapped modules, and callables that Dynamo can trace."""

import copy
import functools
import types
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torch._dynamo import eval_frame, external_utils, trace_rules


def wrapped_module(module: torch.nn.Module, wrap: Callable[[Any], Any]) -> Any:
    """The module with its call wrapped, as torch.compile returns one."""
    return eval_frame.OptimizedModule(module, wrap)  # type: ignore[arg-type]


def optimized_module(
    module: torch.nn.Module, wrap: Callable[[Any], Any], report: Callable[[], Any]
) -> Any:
    """The module with its call wrapped; copied or pickled, it is the module itself."""
    made = wrapped_module(module, wrap)
    # On the object, since Dynamo sees through no class derived from torch's, and past its
    # __setattr__, which would write to the user's module. Neither of them holds `made` itself,
    # which so goes with its last reference.
    made.__dict__.update(report=report, __reduce_ex__=lambda _protocol: (copy.copy, (module,)))
    return made


def traceable(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, under a frame of its own where Dynamo would skip its frame (torch's code).

    The frame is ``wrap_inline``'s with code of its own, since versions are counted by code.
    """
    code = getattr(function, "__code__", None)
    inner = getattr(function, "__func__", None)
    code = code or getattr(inner, "__code__", None)
    if code is not None and not trace_rules.check(code):
        return function
    owner = getattr(function, "__self__", None)
    is_module = isinstance(owner, torch.nn.Module) and inner is type(owner).__call__
    target: Any = owner if is_module else function
    name = type(owner).__name__ if is_module else getattr(function, "__name__", "function")
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


# Found again when the same object is wrapped later: `run` uses what `optimize` compiled.
_frames: weakref.WeakKeyDictionary[Any, dict[str, types.CodeType]] = weakref.WeakKeyDictionary()
