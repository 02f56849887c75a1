"""Python numbers that a compiled function carries along without relying on their values.

After ``value = loss.item()`` torch takes the value for a constant: the function recompiles at each
call, and is left to eager after eight versions. A float that was traced with two values is carried
from then on: Python computes its sums and products where they are wanted, and anything else that is
done with it ends the graph.
"""

import sys
from collections.abc import Callable
from functools import partialmethod
from typing import Any

from torch._dynamo.bytecode_transformation import create_call_function
from torch._dynamo.guards import GuardBuilder, install_guard
from torch._dynamo.output_graph import OutputGraph
from torch._dynamo.source import is_from_local_source
from torch._dynamo.symbolic_convert import InstructionTranslator
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.lazy import LazyConstantVariable

from dynamo_ext.capture.torch_private.code_cache import users_code
from dynamo_ext.capture.torch_private.patches.growing_lists import Carried
from dynamo_ext.capture.torch_private.patches.registry import Traced, patches

_SUM = VariableTracker.nb_add_impl
"""What ``nb_add_impl`` below overrides: torch 2.11 and 2.12 trace sums in another way."""

_floats = Traced()


class CarriedNumber(Carried):
    """A float of which compiled code knows the type alone.

    Where it has no source, ``operation`` is the name of the function of ``operator`` that makes it
    from the numbers ``left`` and ``right``. Torch cannot break a graph at one of these.
    """

    kind = float
    about = "A number that changes from call to call"
    why = "Compiled code cannot compute with a Python number that it does not know."
    remedy = "Keep it in a tensor: use .detach() instead of .item()."
    _nonvar_fields = {"operation", *Carried._nonvar_fields}  # noqa: RUF012

    def __init__(
        self,
        operation: str = "",
        left: VariableTracker | None = None,
        right: VariableTracker | None = None,
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.operation = operation
        self.left = left
        self.right = right

    as_proxy = Carried.refuse  # asked for where it is an argument of a tensor's operation

    def reconstruct(self, codegen: Any) -> None:
        """Have Python compute it."""
        codegen.add_push_null(lambda: codegen.load_import_from("operator", self.operation))
        codegen(self.left)
        codegen(self.right)
        codegen.extend_output(create_call_function(2, False))  # noqa: FBT003

    def _with(self, operation: str, _tx: Any, other: Any, reverse: bool = False) -> Any:  # noqa: FBT001, FBT002
        # None of these raises for floats, so it does not matter when they are computed.
        if not _is_number(other):
            return self.refuse()
        left, right = (other, self) if reverse else (self, other)
        return CarriedNumber(operation, left, right)

    nb_add_impl = partialmethod(_with, "add")
    nb_subtract_impl = partialmethod(_with, "sub")
    nb_multiply_impl = partialmethod(_with, "mul")


def _is_number(value: VariableTracker) -> bool:
    value = value.realize()
    # Of an integer beyond a float's range a sum would raise.
    return isinstance(value, CarriedNumber) or (
        isinstance(value, ConstantVariable)
        and (
            type(value.value) is float
            or (type(value.value) is int and abs(value.value) <= sys.float_info.max)
        )
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
    """Carry a float that changes from call to call, in what follows a graph break."""
    if type(value) is float and is_from_local_source(source):
        code = InstructionTranslator.current_tx().output.root_tx.f_code
        if users_code(code) is not code and _floats.varies(code, source.name, value):
            install_guard(source.make_guard(GuardBuilder.TYPE_MATCH))
            return CarriedNumber(source=source)
    return upstream(value, source, **options)
