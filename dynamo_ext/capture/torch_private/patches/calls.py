"""Calls that end the graph, and which functions were traced."""

import inspect
import sys
import types
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

import torch
from torch._dynamo import symbolic_convert
from torch._dynamo.symbolic_convert import InliningInstructionTranslator, InstructionTranslator
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._guards import TracingContext
from torch.nn.modules.lazy import LazyModuleMixin

from dynamo_ext.capture.code import frame_looks
from dynamo_ext.capture.torch_private.patches import generators
from dynamo_ext.capture.torch_private.patches.registry import (
    ABOUT_COMPILING,
    end_graph,
    first_given,
    inliners,
    patches,
    patches_instruction,
    wrappers,
)
from dynamo_ext.formatting import article

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
        end_graph(
            "Call of an async function",
            code.co_qualname,
            "Calling an async function makes a coroutine, which is not compiled.",
            "Await it outside of the compiled code.",
        )
    generators.prepare(parent, function)
    made = first_given(inliners, upstream, parent, function, *args, **options)
    _traced.add((code.co_filename, code.co_qualname))
    return made


@patches_instruction("DICT_MERGE")
def merge_keywords(upstream: Callable[..., Any], tx: Any, inst: Any) -> Any:
    """End the graph at a call that has a keyword twice, which Python refuses and upstream takes."""
    given, known = tx.stack[-1].realize(), tx.stack[-1 - inst.arg].realize()
    before = [len(each.items) for each in (given, known) if isinstance(each, ConstDictVariable)]
    result = upstream(tx, inst)
    if len(before) > 1 and len(known.items) < sum(before):
        end_graph(
            "Call with a keyword that is given twice",
            str(given),
            "A keyword of the call is given twice, which Python refuses.",
            "Give each keyword once.",
        )
    return result


@dataclass(eq=False)
class StaysPythonError(BaseException):
    """A frame is not to be captured, of which nothing has run; ``once``: not at this call.

    No ``Exception``, which Dynamo would take for its own. ``stack`` is outermost first; ``looker``
    is code that looks at names.
    """

    message: str
    remedy: str
    stack: Sequence[Any]
    once: bool = False
    looker: types.CodeType | None = None


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
        message = (
            f"This is the first call of {article(type(self.value).__name__)}, whose parameters "
            "Dynamo would initialise before the code above the call has run, and with other "
            "random numbers"
        )
        remedy = "Nothing needs to be done: the next call is captured."
        raise StaysPythonError(message, remedy, TracingContext.extract_stack(), once=True)


def keep_names(looker: types.CodeType | None, stack: Sequence[Any]) -> None:
    """Have the frame that is traced stay Python if there is a looker, which would miss names."""
    if looker is not None:
        message = (
            f"`{looker.co_qualname}` looks at names of running functions, and of a function "
            "that is compiled in parts some are missing"
        )
        remedy = f"Call `{looker.co_name}` in a function apart from what is to be compiled."
        raise StaysPythonError(message, remedy, stack, looker=looker)


_GIVE_FRAMES = (sys._getframe, sys._current_frames, inspect.currentframe, inspect.stack)


@patches(symbolic_convert, "is_forbidden")
def is_forbidden(upstream: Callable[..., bool], function: Any) -> bool:
    """End the graph at what torch forbids in one; upstream gives up all of a cell for a call.

    Every call comes here, so one that gives frames does.
    """
    output: Any = InstructionTranslator.current_tx().output
    if any(function is each for each in _GIVE_FRAMES) and not output.root_tx.one_graph:
        asks = output.current_tx
        looker = frame_looks.looker_behind(asks.f_code, asks.f_globals)
        keep_names(looker, TracingContext.extract_stack())
    if upstream(function):
        name = getattr(function, "__name__", repr(function))
        end_graph(
            ABOUT_COMPILING,
            name,
            f"`{name}` sets how torch compiles, and is not compiled itself.",
            f"Call `{name}` before the compiled code.",
        )
    return False
