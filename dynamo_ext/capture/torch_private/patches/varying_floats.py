"""Python numbers that a compiled function carries along without relying on their values.

After ``value = loss.item()`` torch takes the value for a constant: the function recompiles at each
call, and is left to eager after eight versions. From the second version on, floats are carried:
Python computes sums, products and comparisons where they are wanted, an ``if`` breaks the graph as
at a tensor, and anything else ends it.
"""

import re
import sys
import types
import weakref
from collections.abc import Callable, Iterable
from functools import partialmethod
from typing import Any, NoReturn

from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import is_from_local_source
from torch._dynamo.symbolic_convert import InstructionTranslator, InstructionTranslatorBase
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyConstantVariable

from dynamo_ext.capture.torch_private.frame_eval import users_code
from dynamo_ext.capture.torch_private.patches.opaque_value import Carried
from dynamo_ext.capture.torch_private.patches.registry import learned, on_recompile, patches

_SUM = VariableTracker.nb_add_impl
"""What ``nb_add_impl`` below overrides: torch 2.11 and 2.12 trace sums in another way."""

_varying: weakref.WeakSet[types.CodeType] = weakref.WeakSet()
learned.append(_varying)
_FLOAT_GUARD = re.compile(r"== -?(?:\d+\.\d*(?:e[+-]?\d+)?|\d+e[+-]?\d+|inf|nan)\b")

_JUMP = InstructionTranslatorBase.POP_JUMP_IF_TRUE.__code__
"""What traces an ``if`` or ``while``."""


@on_recompile.append
def note_varying(code: types.CodeType, reasons: Iterable[str]) -> None:
    """See whether a frame compiles again for the value of some float."""
    if users_code(code) is not code and any(_FLOAT_GUARD.search(reason) for reason in reasons):
        _varying.add(code)


class CarriedNumber(Carried):
    """A float, or a comparison of floats, of which compiled code knows the type alone.

    ``kind`` is ``float`` or ``bool``. Where it has no source, ``operation`` is the name of the
    function of ``operator`` that makes it from the numbers ``left`` and ``right``.
    """

    _nonvar_fields = {"kind", "operation", *Carried._nonvar_fields}  # noqa: RUF012

    def __init__(
        self,
        kind: type,
        operation: str = "",
        left: VariableTracker | None = None,
        right: VariableTracker | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.kind = kind
        self.operation = operation
        self.left = left
        self.right = right

    def python_type(self) -> type:
        """Its type, on which there is a guard."""
        return self.kind

    def is_tensor(self) -> bool:
        """Whether torch is to break the graph at an ``if`` on it, as it does at a tensor's."""
        return sys._getframe(1).f_code is _JUMP

    def reconstruct(self, codegen: Any) -> None:
        """Have Python compute it."""
        codegen.add_push_null(lambda: codegen.load_import_from("operator", self.operation))
        codegen(self.left)
        codegen(self.right)
        codegen.extend_output(create_call_function(2, False))  # noqa: FBT003

    def richcompare_impl(self, _tx: Any, other: Any, op: str) -> Any:
        """A comparison; Python asks the right side with the operator turned around."""
        if not _is_number(other):
            return ConstantVariable.create(NotImplemented)
        return CarriedNumber(bool, op.strip("_"), self, other)

    tp_richcompare_impl = richcompare_impl  # its name from torch 2.14 on

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """End the graph."""
        unimplemented(
            gb_type="A number that changes from call to call",
            context=f"{self.kind.__name__} {self.operation}",
            explanation="Compiled code cannot compute with a Python number that it does not know.",
            hints=["Keep it in a tensor: use .detach() instead of .item()."],
        )

    as_proxy = refuse  # asked for where it is an argument of a tensor's operation

    def _with(self, operation: str, _tx: Any, other: Any, reverse: bool = False) -> Any:  # noqa: FBT001, FBT002
        # None of these raises for floats, so it does not matter when they are computed.
        if not _is_number(other) or self.kind is bool:
            return self.refuse(operation)
        left, right = (other, self) if reverse else (self, other)
        return CarriedNumber(float, operation, left, right)

    nb_add_impl = partialmethod(_with, "add")
    nb_subtract_impl = partialmethod(_with, "sub")
    nb_multiply_impl = partialmethod(_with, "mul")


def _is_number(value: VariableTracker) -> bool:
    value = value.realize()
    if isinstance(value, CarriedNumber):
        return value.kind is float
    # Of an integer beyond a float's range a sum would raise.
    return isinstance(value, ConstantVariable) and (
        type(value.value) is float
        or (type(value.value) is int and abs(value.value) <= sys.float_info.max)
    )


@patches(OutputGraph, "_get_stack_values_to_restore")
def stack_values(upstream: Callable[..., Any], self: Any, tx: Any, stack_pops: int) -> Any:
    """Leave Python numbers on the stack unguarded at a break: `total += loss.item()`."""
    below = tx.stack[: len(tx.stack) - stack_pops]
    if all(type.__instancecheck__(LazyConstantVariable, value) for value in below):
        stack_pops = len(tx.stack)
    return upstream(self, tx, stack_pops)


@patches(LazyConstantVariable, "create")
def lazy_constant(upstream: Callable[..., Any], value: Any, source: Any, **options: Any) -> Any:
    """Carry a float that changes from call to call."""
    if type(value) is float and is_from_local_source(source):
        root = InstructionTranslator.current_tx().output.root_tx
        if root.f_code in _varying:
            install_guard(source.make_guard(GuardBuilder.TYPE_MATCH))
            return CarriedNumber(float, source=source)
    return upstream(value, source, **options)
