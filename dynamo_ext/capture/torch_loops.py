"""Loops over a few modules, which Dynamo may go through turn by turn.

Torch leaves a whole frame to eager where a graph break stands in a loop of it, since each turn
would compile a version of its own. Where the turns are few, and each has modules of its own, that
is what is wanted: layers with an early exit, or with a number read after each. Checked, as all
private interfaces, on the versions of ``torch_private``.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from torch._dynamo.polyfills import builtins as polyfills
from torch._dynamo.variables.functions import LocalGeneratorObjectVariable
from torch._dynamo.variables.iter import DictViewIterator, IteratorVariable, ZipVariable
from torch._dynamo.variables.lazy import LazyVariableTracker
from torch._dynamo.variables.lists import ListIteratorVariable, TupleVariable
from torch._dynamo.variables.nn_module import NNModuleVariable, UnspecializedNNModuleVariable

from dynamo_ext.capture.cell_function import SEGMENT_NAME
from dynamo_ext.capture.torch_private import recompile_limit, users_code

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ENABLED = False
"""Whether such loops are captured. Not yet: on a small model with eight early exits each backend by
itself came to 0.73 to 0.84 of eager, and `auto`, which mixed two of them, to 0.26."""

_TUPLE_ITERATOR = type(iter(()))
"""What an iterator over modules is after a graph break."""


def goes_over_few_modules(tx: Any) -> bool:
    """Whether all loops that a function is in, where it is traced now, go over a few modules.

    Each turn that is left is a version of the function that goes on after the break.
    """
    if not ENABLED or SEGMENT_NAME in tx.f_code.co_name:
        # A cell's own loops are divided instead, however often they turn.
        return False
    turns = [_modules_left(loop) for loop in _loops(tx.stack)]
    known = [max(left, 1) for left in turns if left is not None]
    return bool(turns) and len(known) == len(turns) and math.prod(known) < recompile_limit()


def is_a_turn(tx: Any) -> bool:
    """Whether a function goes on after a break in a loop over modules."""
    code = users_code(tx.f_code)
    return (
        ENABLED
        and code is not tx.f_code
        and code is not None
        and SEGMENT_NAME not in code.co_name
        and any(
            name.startswith("___stack") and isinstance(value, _TUPLE_ITERATOR)
            for name, value in tx.f_locals.items()
        )
    )


def reconstruct(loop: Any, codegen: Any, otherwise: Callable[[Any, Any], None]) -> None:
    """Have an iterator over modules wait for what goes on after a break.

    Torch refuses one over a dictionary (a ``ModuleList`` has one), and cannot go on with a
    ``zip``; so what is left of it waits instead.
    """
    if not ENABLED or not _only_waits(loop, codegen.tx) or _modules_left(loop) is None:
        otherwise(loop, codegen)
        return
    ListIteratorVariable(_left(loop) or []).reconstruct(codegen)


def _only_waits(loop: Any, tx: Any) -> bool:
    """Whether nobody but a loop of a function has an iterator, so that none sees its type."""
    named = any(value is loop for value in tx.symbolic_locals.values())
    return (
        SEGMENT_NAME not in tx.f_code.co_name
        and not named
        and any(value is loop for value in tx.stack)
    )


def _loops(stack: Sequence[Any]) -> list[Any]:
    """The iterators that wait on the stack; those not looked at stay so, for a look is a guard."""
    return [
        value
        for value in stack
        if (
            issubclass(value.peek_type(), Iterator)
            if _is_unseen(value)
            else isinstance(value, (IteratorVariable, LocalGeneratorObjectVariable))
        )
    ]


def _is_unseen(value: Any) -> bool:
    return type.__instancecheck__(LazyVariableTracker, value) and not value.is_realized()


def _modules_left(loop: Any) -> int | None:
    """How many turns an iterator over modules has left; none where it is over anything else."""
    if _is_unseen(loop):
        # It came here from before a graph break, so the loop was found to be one then.
        return 1
    if isinstance(loop, LocalGeneratorObjectVariable):
        code, inner = loop.inline_tracer.f_code, _loops(loop.inline_tracer.stack)
        is_enumerate = (code.co_filename, code.co_name) == (polyfills.__file__, "enumerate")
        return _modules_left(inner[0]) if is_enumerate and len(inner) == 1 else None
    left = _left(loop)
    return len(left) if left is not None and all(map(_has_module, left)) else None


def _has_module(value: Any) -> bool:
    """Whether a value is a module, or a tuple with one (of ``enumerate``, ``zip``, ``items``)."""
    if isinstance(value, TupleVariable):
        return any(map(_has_module, value.items))
    return isinstance(value, (NNModuleVariable, UnspecializedNNModuleVariable))


def _left(loop: Any) -> list[Any] | None:
    """What an iterator over lists or dictionaries has still to give; it is not moved on."""
    if isinstance(loop, ListIteratorVariable):
        return list(loop.items[loop.index :])
    if isinstance(loop, ZipVariable):
        parts = [_left(part) for part in loop.iterable.items]
        known = [part for part in parts if part is not None]
        uneven = loop.strict and len({len(part) for part in known}) > 1
        if uneven or not known or len(known) < len(parts):
            return None
        return [TupleVariable(list(values)) for values in zip(*known, strict=False)]
    if not isinstance(loop, DictViewIterator):
        return None
    left: list[Any] = list(copy.copy(loop._iter))
    if loop.view_type == "items":
        return [TupleVariable([key.vt, value]) for key, value in left]
    return left if loop.view_type == "values" else [key.vt for key in left]
