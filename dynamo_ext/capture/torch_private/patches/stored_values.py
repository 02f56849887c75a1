"""What traced code stores where others than the same variable look: there a graph ends.

Dynamo puts a change off until its graph has run, and knows of it by the variable it was made
through. Objects of a class, subclasses and globals would see what was there before. Finalisers
(``__del__``) would run late, and on the objects that Dynamo makes to have an example.
"""

import builtins
import contextlib
import functools
import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from torch._dynamo.side_effects import SideEffects
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.functions import BaseUserFunctionVariable
from torch._dynamo.variables.misc import NewGlobalVariable, PythonModuleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedObjectVariable

from dynamo_ext.capture.code.block import block_of
from dynamo_ext.capture.code.replaced_methods import watch
from dynamo_ext.capture.torch_private.patches.registry import end_graph, patches
from dynamo_ext.capture.torch_private.traced_frames import attributes


@patches(SideEffects, "store_attr")
def store_attr(
    upstream: Callable[..., None],
    self: Any,
    item: Any,
    name: str,
    value: Any,
    *how: Any,
    **more: Any,
) -> None:
    """End the graph at what no other variable may see."""
    if isinstance(item, UserDefinedClassVariable):
        watch(item.value)
        end_graph(
            "Assignment to a class",
            f"{item.value.__qualname__}.{name}",
            "What a class holds is seen by its objects and subclasses, too.",
        )
    if isinstance(item, PythonModuleVariable) and (
        item.value is builtins or item.value.__dict__ is _globals()
    ):
        end_graph(
            "Assignment to a module whose names are looked up",
            f"{item.value.__name__}.{name}",
            "What is assigned to it is read without it, by the name alone.",
        )
    if isinstance(item, BaseUserFunctionVariable) and name in _FUNCTION_PARTS:
        why = "Torch calls what it was before."
        end_graph("Assignment to what a function is made of", name, why)
    if _has_finaliser(type(_held(item).get(name))):
        _set_apart()
        end_graph(
            "Assignment over an object with a finaliser",
            name,
            "`__del__` of what was there runs at the assignment, if nothing else holds it.",
        )
    upstream(self, item, name, value, *how, **more)
    node = _before_changes(item)
    if node is not None:
        # `weight -= step` gives the name another variable of the same tensor. Upstream would lose
        # what is assigned to that one, such as `weight.grad = None`.
        known = (v for v in self.id_to_variable.values() if isinstance(v, TensorVariable))
        same = next((each for each in known if each.as_proxy().node is node), None)
        if same is None:
            why = "It is another's, too."
            end_graph("Assignment to what an operation in place gave", name, why)
        upstream(self, same, name, value, *how, **more)


def _before_changes(item: Any) -> Any:
    """What made the tensor that operations in place gave; ``None`` for any other variable."""
    if not isinstance(item, TensorVariable):
        return None
    node = item.as_proxy().node
    made: Any = node
    tensor = made.meta.get("example_value", made)
    while made.args and getattr(made.args[0], "meta", {}).get("example_value") is tensor:
        made = made.args[0]
    return None if made is node else made


@patches(SideEffects, "get_example_value")
def get_example_value(
    upstream: Callable[..., Any], self: Any, base: Any, cls: Any, arguments: Any
) -> Any:
    """End the graph at an object whose ``__del__`` would run on torch's example of it, too."""
    _refuse_finaliser(cls.value)
    return upstream(self, base, cls, arguments)


def end_at_calls(made: UserDefinedClassVariable) -> None:
    """Do the same where a class is called: torch 2.13 makes an object before it has an example.

    Also at a set of a class of one's own: upstream makes an empty one.
    """
    cls = made.value
    if _has_finaliser(cls) or (issubclass(cls, set) and cls is not set):
        made.__class__ = _without_calls(type(made))


@functools.cache
def _without_calls(kind: Any) -> type:
    class NotCalled(kind):  # type: ignore[misc]
        def call_function(self, *_: Any) -> NoReturn:
            _refuse_finaliser(self.value)
            end_graph(
                "Creation of a set of one's own class",
                self.value.__qualname__,
                "It would be empty.",
            )

    return NotCalled


@patches(PythonModuleVariable, "tp_getattro_impl", "var_getattr")
def module_attr(upstream: Callable[..., Any], self: Any, tx: Any, name: str) -> Any:
    """Read a name that the traced code has just bound through the module that is traced.

    Upstream reads what the module held before. To end the graph here does not help: upstream then
    takes the attribute of a module for a constant.
    """
    output = tx.output
    own = tx if tx.f_globals is output.global_scope else output.root_tx
    if self.value.__dict__ is output.global_scope and name in own.symbolic_globals:
        stored = output.side_effects[own.symbolic_globals[name]]
        return output.side_effects.load_global(stored, name)
    return upstream(self, tx, name)


_FUNCTION_PARTS = {"__code__", "__defaults__", "__kwdefaults__"}


def note_value(value: object) -> None:
    """Remember whether tracing has come by an object with a finaliser."""
    _Seen.finalisers = _Seen.finalisers or _has_finaliser(type(value))


@contextlib.contextmanager
def let_go_of_the_new() -> Iterator[None]:
    """Free what tracing leaves in cycles, where that may keep an object with a finaliser alive.

    Older objects are left out: a full collection of a large process takes seconds.
    """
    if _Seen.within:
        # What the outer trace has seen is still held, and goes at its end.
        yield
        return
    # Objects that the user has frozen stay so.
    freezes = not _Seen.finalisers and gc.get_freeze_count() < _MOST_OF_PYTHON
    _Seen.within, handled = True, sys.exception()
    try:
        if freezes:
            # Young objects are old afterwards.
            gc.collect(1)
            gc.freeze()
        yield
    finally:
        _Seen.within = False
        try:
            if _Seen.finalisers:
                # What an error that leaves the block holds goes after the next block. Others than
                # `Exception` (a block that is divided, an interrupt) do not hold the trace.
                leaving = sys.exception()
                _Seen.finalisers = isinstance(leaving, Exception) and leaving is not handled
                gc.collect()
        finally:
            if freezes:
                gc.unfreeze()


_MOST_OF_PYTHON = 1000
"""Python 3.12 freezes 375 objects as it starts; with torch imported, a user freezes many more."""


class _Seen:
    within = False
    finalisers = False


def _held(item: Any) -> dict[str, Any]:
    """What the names or attributes that traced code assigns to hold until then."""
    if isinstance(item, NewGlobalVariable):
        return _globals()
    return attributes(item.value) if isinstance(item, UserDefinedObjectVariable) else {}


def _globals() -> dict[str, Any]:
    found: dict[str, Any] = InstructionTranslator.current_tx().output.global_scope
    return found


def _refuse_finaliser(cls: type) -> None:
    if _has_finaliser(cls):
        _set_apart()
        end_graph(
            "Creation of an object with a finaliser",
            cls.__qualname__,
            "`__del__` would run on the examples that tracing makes of it, too.",
        )


def _set_apart() -> None:
    """Have a cell's block divided here: what resumes after a break holds the break's values."""
    root = InstructionTranslator.current_tx().output.root_tx
    if block := block_of(root.f_code):
        block.split_at(root.lineno)


def _has_finaliser(cls: type) -> bool:
    # Not the metaclass's, nor what a `__getattr__` of its would give.
    return any("__del__" in vars(base) for base in cls.__mro__)
