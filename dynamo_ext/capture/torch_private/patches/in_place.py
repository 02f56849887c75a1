"""Changes in place that torch would not make: of lists by ``+=``, of sets, of what is written in C.

Checked, as all private interfaces, on the versions of ``torch_private``.
"""

from __future__ import annotations

import types
from typing import TYPE_CHECKING, Any, NoReturn

from torch._dynamo.exc import unimplemented
from torch._dynamo.variables.base import ValueMutationExisting
from torch._dynamo.variables.lists import ListVariable
from torch._dynamo.variables.user_defined import UserDefinedObjectVariable, UserDefinedSetVariable

from dynamo_ext.capture.torch_private.patches.registry import patches

if TYPE_CHECKING:
    from collections.abc import Callable

_OPERATIONS = ("add", "sub", "mul", "truediv", "floordiv", "mod", "lshift", "rshift")
_IN_PLACE = frozenset(f"__i{name}__" for name in (*_OPERATIONS, "and", "or", "xor"))


@patches(UserDefinedObjectVariable, "call_method")
def call_method(upstream: Callable[..., Any], self: Any, tx: Any, name: str, *given: Any) -> Any:
    """End the graph at `array += 1`, or wherever else a type in C changes a value in place.

    Upstream has this method and the operator's slot call one another up to Python's recursion
    limit, and captures nothing of the frame. Of a user's own list type, it makes a plain list.
    """
    if name in _IN_PLACE:
        method = self._maybe_get_baseclass_method(name)
        if isinstance(method, types.WrapperDescriptorType):
            if isinstance(self.value, set):
                _refuse_change_of_set()
            result = self._vectorcall_maybe(tx, name, given[0])
            return self if result is self._base_vt else result
    return upstream(self, tx, name, *given)


@patches(ListVariable, "call_method")
def call_list_method(
    upstream: Callable[..., Any], self: Any, tx: Any, name: str, *given: Any
) -> Any:
    """Have `__iadd__` extend the list: upstream forgets that after the graph."""
    if name != "__iadd__":
        return upstream(self, tx, name, *given)
    upstream(self, tx, "extend", *given)
    return self


def _refuse_change_of_set() -> NoReturn:
    unimplemented(
        gb_type="A change of a set of a type of one's own",
        context="",
        explanation="Torch does not make the change once the graph has run.",
        hints=["Use a set, or change it before or after the part that computes."],
    )


class _Unwritten(ValueMutationExisting):
    """How a set of a user's own type is changed: not in a graph."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "is_modified" and value:
            _refuse_change_of_set()
        super().__setattr__(name, value)


@patches(UserDefinedSetVariable, "__init__")
def users_set(upstream: Callable[..., None], self: Any, value: Any, **more: Any) -> None:
    """End the graph where a set of a user's own type is filled or changed."""
    upstream(self, value, **more)
    if isinstance(value, set):
        self._base_vt.mutation_type = _Unwritten()


@patches(UserDefinedSetVariable, "as_python_constant")
def set_as_constant(upstream: Callable[..., Any], self: Any) -> Any:
    """Do not take such a set for a constant: upstream would compute `|=` with a copy of it."""
    if isinstance(self.value, set):
        raise NotImplementedError
    return upstream(self)
