"""Values that come into a frame, and what is done with those that Dynamo does not compute.

A cell's names, which are globals, are traced as a function's locals are.
"""

import io
import types
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any, NoReturn

import torch
import torch._dynamo as dynamo
from torch._dynamo import variables
from torch._dynamo.exc import raise_observed_exception
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.source import AttrSource, GlobalSource, LocalSource
from torch._dynamo.symbolic_convert import InstructionTranslatorBase
from torch._dynamo.variables import builder
from torch._dynamo.variables.base import AsPythonConstantNotImplementedError, VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.lists import DequeVariable, SliceVariable
from torch._dynamo.variables.misc import GetAttrVariable, StringFormatVariable
from torch._dynamo.variables.tensor import SymNodeVariable, TensorVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedObjectVariable

from dynamo_ext.capture.torch_private.patches import stored_values
from dynamo_ext.capture.torch_private.patches.registry import (
    end_graph,
    first_given,
    patches,
    wrappers,
)


@patches(InstructionTranslatorBase, "load_builtin")
def load_builtin(upstream: Callable[..., None], self: Any, inst: Any) -> None:
    """Load a name that the frame has just bound; end the graph at one that does not exist.

    Upstream takes a name for a builtin where it did not exist before the frame, and every
    statement that reads it ends the graph. Since 2.14 it traces the ``NameError``, what handles it
    too, without a guard: the compiled code would go on without the name once it is defined.
    """
    output, name = self.output, inst.argval
    if name in self.symbolic_globals and output.global_scope is self.f_globals:
        stored = output.side_effects[self.symbolic_globals[name]]
        self.push(output.side_effects.load_global(stored, name))
    elif name not in self.f_builtins:
        why = f"Failed to find name `{name}` in frame's builtins."
        end_graph("failed to find name in frame builtins", "", why)
    else:
        upstream(self, inst)


_CONTAINERS = (list, dict, set, deque)
_TUPLE_ITERATOR = type(iter(()))


@patches(builder.VariableBuilder, "_wrap")
def wrap(upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """What Dynamo knows of a value that comes into the frame."""
    stored_values.note_value(value)
    # Of `losses.append(loss.item())` and `"{:.3f}".format(loss.item())` a bound method waits while
    # the graph breaks. Upstream guards on that very object, which is another one at each call; what
    # it is bound to will do.
    if (
        type(value) is types.BuiltinMethodType
        and (type(value.__self__) in (*_CONTAINERS, str) or isinstance(value.__self__, io.IOBase))
        and isinstance(self.source, LocalSource)
        and self.source.local_name.startswith("___stack")
    ):
        self.install_guards(GuardBuilder.TYPE_MATCH)
        # `(xs.append if good else xs.remove)(x.item())` has one or the other there.
        install_guard(AttrSource(self.source, "__name__").make_guard(GuardBuilder.EQUALS_MATCH))
        bound = VariableTracker.build(self.tx, value.__self__, AttrSource(self.source, "__self__"))
        return GetAttrVariable(bound, value.__name__, source=self.source)
    if _is_own_container(value):
        # Upstream loses changes, or makes them on a copy.
        self.install_guards(GuardBuilder.TYPE_MATCH)
        return PythonsOwn(value, source=self.source)
    if value is format:
        self.install_guards(GuardBuilder.BUILTIN_MATCH)
        return _Format(value, source=self.source)
    is_begun = type(value) is _TUPLE_ITERATOR and not self.source.name.startswith("L['___stack")
    if is_begun or type(value) is types.GeneratorType:
        # Upstream reads what `next` gave only after it has moved the iterator on, and from torch
        # 2.14 on it traces a copy of a generator that has not begun.
        return self.wrap_user_defined(value)
    is_global = type(value) is int and type(self.source) is GlobalSource
    if is_global and not dynamo.config.specialize_int:
        # Upstream takes global integers for constants; in a notebook they are the user's variables,
        # and `step = step + 1` would recompile at each run of the cell.
        return self._wrap_lazy_constant(value, self._wrap_symint_for_lazy)
    found = first_given(wrappers, upstream, self, value)
    if type(value) in (set, OrderedDict):
        # Upstream adds what is new, and loses what `-=` removes and where `move_to_end` moves.
        found.should_reconstruct_all = True
    if issubclass(type(found), UserDefinedClassVariable):
        stored_values.end_at_calls(found)
    if type(found) is DequeVariable:
        found.__class__ = _Queue
    return found


def _is_own_container(value: object) -> bool:
    kind = type(value)
    derived = isinstance(value, set | list | deque) and kind not in _CONTAINERS
    return derived and kind.__module__.partition(".")[0] != "torch"


_IN_PLACE = {
    f"nb_inplace_{slot}": f"__i{name}__"
    for slot, name in {
        "add": "add", "subtract": "sub", "multiply": "mul", "matrix_multiply": "matmul",
        "true_divide": "truediv", "floor_divide": "floordiv", "remainder": "mod", "power": "pow",
        "lshift": "lshift", "rshift": "rshift", "and": "and", "or": "or", "xor": "xor",
    }.items()
}  # fmt: skip
"""The method of each in-place operator by torch's name of its slot."""


_by_slots = hasattr(UserDefinedObjectVariable, "SLOT1")
"""Whether operators are looked up as torch 2.14 and later do; before, methods are called."""

_operators: Any = vars(variables)["object_protocol"] if _by_slots else UserDefinedObjectVariable


@patches(_operators, "binary_iop1", "call_method")
def in_place(upstream: Callable[..., Any], *given: Any) -> Any:
    """End the graph at `array += other`, where a type in C changes the value in place.

    Torch 2.14 would give another object the name; before, it calls itself up to Python's recursion
    limit, and captures nothing of the frame.
    """
    if _by_slots:
        _, left, _, slot, *_ = given
        left, name = left.realize(), _IN_PLACE.get(slot, "")
    else:
        left, _, name, *_ = given
    if isinstance(left, UserDefinedObjectVariable) and name in _IN_PLACE.values():
        method = left._maybe_get_baseclass_method(name)
        if isinstance(method, types.WrapperDescriptorType):
            end_at_operator(type(left.value), name)
    return upstream(*given)


class PythonsOwn(UserDefinedObjectVariable):
    """A value on which Python does what is done, between two graphs."""

    def sq_concat_impl(self, *_: Any) -> NoReturn:
        """Leave a sum to Python; upstream gives the constant NotImplemented."""
        end_at_operator(type(self.value), "__add__")


@patches(SliceVariable, "as_python_constant")
def slice_constant(upstream: Callable[..., slice], self: Any) -> slice:
    """No constant where a part is none: upstream has Dynamo's own objects in a slice that it loads.

    ``x[:k]`` ends a graph where ``k`` is not known, and would raise when Python runs it.
    """
    found = upstream(self)
    if any(isinstance(v, VariableTracker) for v in (found.start, found.stop, found.step)):
        raise AsPythonConstantNotImplementedError(self)
    return found


class _Queue(DequeVariable):
    """A deque that comes into the frame."""

    def reconstruct(self, codegen: Any) -> None:
        super().reconstruct(codegen)
        # It gets the content of what this makes. Upstream gives that to global names in its place.
        codegen.tempvars.pop(self, None)


def end_at_operator(kind: type, name: str) -> NoReturn:
    """End the graph at an operator that changes an object of this type in place."""
    operator, why = f"{kind.__qualname__}.{name}", "Torch does not trace what the type does."
    end_graph("Operator of a type in C", operator, why)


@patches(InstructionTranslatorBase, "_format_value")
def format_value(upstream: Callable[..., None], self: Any, spec: Any, flags: int) -> None:
    """Format a symbolic number as the number.

    Upstream formats its text (`f"{n:03}"` of 15 is "150", `:.2f` raises), gives the number itself
    for `f"{n}"`, and recompiles for each number.
    """
    if not isinstance(self.stack[-1], SymNodeVariable):
        upstream(self, spec, flags)
        return
    text = "{" + ("", "!s", "!r", "!a")[flags & 3] + ":" + spec.as_python_constant() + "}"
    self.push(StringFormatVariable(text, [self.pop()], {}))


class _Format(BuiltinVariable):
    """The builtin ``format``."""

    def call_function(self, tx: Any, args: Any, kwargs: Any) -> Any:
        # Upstream takes `format(15, "03")` for `"15".format("03")`, which is "15".
        if kwargs or len(args) not in (1, 2):
            return super().call_function(tx, args, kwargs)
        tx.push(args[0])
        tx._format_value(args[1] if args[1:] else VariableTracker.build(tx, ""), 0)
        return tx.pop()


@patches(TensorVariable, "dynamic_getattr")
def dynamic_getattr(upstream: Callable[..., Any], self: Any, tx: Any, name: str) -> Any:
    """Raise for an attribute that no tensor has; upstream raises too late, or not at all.

    Torch 2.11 raises, of a tensor that comes into the frame, what it takes for an error of its own.
    """
    kind = self.python_type()
    missing = f"'{kind.__name__}' object has no attribute '{name}'"
    if self.source is not None or kind is not torch.Tensor or hasattr(kind, name):
        try:
            return upstream(self, tx, name)
        except AttributeError as error:
            if error.name != name:
                raise  # of Dynamo's own code
            # Raised from here, it would hold the frame and its objects.
            missing = str(error)
    raise_observed_exception(AttributeError, tx, args=[missing])
    return None
