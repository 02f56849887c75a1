"""What torch before 2.13 gets wrong: a guard is added there, or the graph ends.

Each patch is in place only where torch lacks the name that came with its own fix.
"""

import inspect
import operator
from collections.abc import Callable, ItemsView, KeysView, ValuesView
from typing import Any, NoReturn

from torch._dynamo.exc import unimplemented
from torch._dynamo.source import AttrSource
from torch._dynamo.variables import builtin
from torch._dynamo.variables.base import ValueMutationNew, VariableTracker
from torch._dynamo.variables.builtin import BuiltinVariable
from torch._dynamo.variables.constant import ConstantVariable
from torch._dynamo.variables.dicts import ConstDictVariable
from torch._dynamo.variables.functions import NestedUserFunctionVariable
from torch._dynamo.variables.lists import ListIteratorVariable, ListVariable, TupleVariable
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._dynamo.variables.user_defined import UserDefinedClassVariable, UserDefinedDictVariable

from dynamo_ext.capture.torch_private.patches.registry import (
    patches,
    patches_each,
    patches_instruction,
)
from dynamo_ext.capture.torch_private.patches.values import end_at_operator

_IN_PLACE = {operator.imul: "__imul__", operator.ior: "__ior__"}
_HASHED = (dict, set, frozenset, KeysView, ValuesView, ItemsView)

if not hasattr(UserDefinedClassVariable, "resolve_cls_plain_attr"):

    @patches(UserDefinedClassVariable, "tp_getattro_impl", "var_getattr")
    def class_attr(upstream: Callable[..., Any], self: Any, tx: Any, name: str) -> Any:
        """Guard on what a class holds: torch 2.11 takes numbers, texts and lists for constants."""
        held = inspect.getattr_static(self.value, name, self)
        if self.source is not None and ConstantVariable.is_literal(held):
            return VariableTracker.build(tx, held, AttrSource(self.source, name))
        return upstream(self, tx, name)

    @patches(UnspecializedNNModuleVariable, "call_function")
    def module_call(
        upstream: Callable[..., Any], self: Any, tx: Any, args: Any, kwargs: Any
    ) -> Any:
        """End the graph where a module has its own ``forward``: torch 2.11 runs its class's."""
        if tx.output.side_effects.has_pending_mutation_of_attr(self, "forward"):
            end_at_operator(type(self.value), "forward")
        return upstream(self, tx, args, kwargs)

    @patches(NestedUserFunctionVariable, "reconstruct")
    def nested_function(upstream: Callable[..., None], self: Any, codegen: Any) -> None:
        """Pair names with annotations: torch 2.11 pairs annotations with the next names, too."""
        if isinstance(self.annotations, TupleVariable):
            flat = self.annotations.items
            self.annotations = ConstDictVariable(dict(zip(flat[::2], flat[1::2], strict=True)))
        upstream(self, codegen)


if not hasattr(ListVariable, "sq_inplace_repeat_impl"):

    class _DictIterator(ListIteratorVariable):
        """An iterator over a dict, its view or a set; torch before 2.13 makes one of a tuple."""

        def reconstruct(self, codegen: Any) -> NoReturn:  # noqa: ARG002
            """End the graph before it is made, as torch 2.13 does."""
            unimplemented(
                gb_type="Reconstruction failure",
                context="an iterator over a dict or a set",
                explanation="Torch before 2.13 gives an iterator over a tuple.",
                hints=[],
            )

    # Torch 2.12 has another kind of variable for `iter`.
    @patches_each(
        [BuiltinVariable, getattr(builtin, "IterBuiltinVariable", BuiltinVariable)], "call_function"
    )
    def builtin_call(
        upstream: Callable[..., Any], self: Any, tx: Any, args: Any, kwargs: Any
    ) -> Any:
        """End the graph where a list or a dict is to change, and would be another object.

        Have what ``iter`` is called with known of the iterator.
        """
        fn = self.as_python_constant()
        if fn in _IN_PLACE:
            left = args[0].realize()
            if isinstance(left, ListVariable | UserDefinedDictVariable):
                end_at_operator(left.python_type(), _IN_PLACE[fn])
        made = upstream(self, tx, args, kwargs)
        if fn is iter and type(made) is ListIteratorVariable:
            of_hashed = issubclass(args[0].python_type(), _HASHED)
            made.__class__ = _DictIterator if of_hashed else ListIteratorVariable
        return made

    @patches_instruction("UNPACK_EX")
    def unpack_rest(upstream: Callable[..., Any], self: Any, instruction: Any) -> None:
        """Make ``rest`` of ``first, *rest = values`` a list: torch before 2.13 makes it a tuple."""
        upstream(self, instruction)
        # Above it on the stack are the values before it.
        place = -1 - (instruction.argval & 0xFF)
        self.stack[place] = ListVariable(self.stack[place].items, mutation_type=ValueMutationNew())
