"""Calls that end the graph, and which functions were traced."""

import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.exc import unimplemented
from torch._dynamo.symbolic_convert import InliningInstructionTranslator
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._guards import TracingContext
from torch.nn.modules.lazy import LazyModuleMixin

from dynamo_ext.capture.report.breaks import ABOUT_COMPILING
from dynamo_ext.capture.torch_private.patches import generators
from dynamo_ext.capture.torch_private.patches.registry import (
    first_given,
    inliners,
    patches,
    wrappers,
)

_traced: set[tuple[str, str]] = set()


def take_traced() -> frozenset[tuple[str, str]]:
    """File and qualified name of every function inlined since the last call of this one."""
    found = frozenset(_traced)
    _traced.clear()
    return found


@patches(InliningInstructionTranslator, "build_inline_tracer")
def build_inline_tracer(
    upstream: Callable[..., Any], parent: Any, function: Any, *args: Any, **options: Any
) -> Any:
    """Refuse coroutines, whose body upstream runs at the call, and generators that leave."""
    code = function.get_code()
    if code.co_flags & inspect.CO_COROUTINE:
        unimplemented(
            gb_type="Call of an async function",
            context=code.co_qualname,
            explanation="Calling an async function makes a coroutine, which is not compiled.",
            hints=["Await it outside of the compiled code."],
        )
    generators.prepare(parent, function)
    made = first_given(inliners, upstream, parent, function, *args, **options)
    _traced.add((code.co_filename, code.co_qualname))
    return made


class LazyModuleMetError(BaseException):
    """A frame is not to be captured at this call: it would initialise a lazy module.

    Nothing of it has run. No ``Exception``, which Dynamo would take for its own. ``stack`` is
    outermost first.
    """

    def __init__(self, module: torch.nn.Module, stack: Sequence[Any]) -> None:
        super().__init__()
        self.module = type(module).__name__
        self.stack = tuple(stack)


@wrappers.append
def wrap(upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """Take a lazy module that is not initialised as one whose call is not traced."""
    if not isinstance(value, LazyModuleMixin) or not hasattr(value, "_initialize_hook"):
        return None
    found = upstream(self, value)
    found.__class__ = _LazyModule
    return found


class _LazyModule(UnspecializedNNModuleVariable):
    """A lazy module: upstream draws its parameters before what the code above the call draws."""

    value: torch.nn.Module

    def call_function(self, *_: Any) -> NoReturn:
        raise LazyModuleMetError(self.value, TracingContext.extract_stack())


@patches(symbolic_convert, "is_forbidden")
def is_forbidden(upstream: Callable[..., bool], function: Any) -> bool:
    """End the graph at what torch forbids in one; upstream gives up all of a cell for a call."""
    if upstream(function):
        name = getattr(function, "__name__", repr(function))
        unimplemented(
            gb_type=ABOUT_COMPILING,
            context=name,
            explanation=f"`{name}` sets how torch compiles, and is not compiled itself.",
            hints=[f"Call `{name}` before the compiled code."],
        )
    return False
