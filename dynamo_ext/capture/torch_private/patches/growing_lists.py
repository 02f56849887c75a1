"""Lists that grow from call to call, as ``self.losses.append(loss.item())`` has them grow.

Torch guards on a list's length, and leaves the function to eager after eight versions. Where it was
traced with three lengths, each longer by as much (a turn of a cell's loop: with two), compiled code
knows only that it is a list from then on: what is done with it ends the graph.
"""

import types
import weakref
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NoReturn

from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import GetAttrVariable

from dynamo_ext.capture.code.block import block_of
from dynamo_ext.capture.torch_private.code_cache import learned
from dynamo_ext.capture.torch_private.patches.registry import end_graph, wrappers

_lengths: weakref.WeakKeyDictionary[types.CodeType, dict[str, list[int]]]
_lengths = weakref.WeakKeyDictionary()
"""By code and source, the lengths that a list was traced with, until it counts as growing."""
learned.append(_lengths)

_SLOTS = tuple(
    name
    for name in dir(VariableTracker)
    if name.endswith("_impl") or name.startswith(("mp_", "sq_", "nb_", "tp_"))
    # Some are tables of methods.
    if callable(getattr(VariableTracker, name))
)


class Carried(VariableTracker):
    """A value of which compiled code knows the type alone: what it does not define ends the graph.

    ``kind`` is the type, on which there is a guard; ``about``, ``why`` and ``remedy`` are for the
    report.
    """

    kind: ClassVar[type]
    about: ClassVar[str]
    why: ClassVar[str]
    remedy: ClassVar[str]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        # Torch would take what is not defined for what Python refuses, and trace a TypeError.
        for name in _SLOTS:
            if name not in vars(cls):
                setattr(cls, name, cls.refuse)

    def python_type(self) -> type:
        """Its type."""
        return self.kind

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """End the graph, so that Python does what was asked for."""
        end_graph(self.about, "", self.why, self.remedy)


@wrappers.append
def wrap(_upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """Carry a list that code was seen to find longer each time."""
    if type(value) is not list:
        return None
    code = self.tx.output.root_tx.f_code
    lengths = _lengths.setdefault(code, {}).setdefault(self.source.name, [])
    block = block_of(code)
    enough = 2 if block is not None and block.is_loop_body else 3
    # Torch traces some frames twice.
    if not _grow(lengths, enough) and len(value) not in lengths[-1:]:
        lengths[:] = [*lengths, len(value)][-enough:]
    if not _grow(lengths, enough):
        return None
    self.install_guards(GuardBuilder.TYPE_MATCH)
    return CarriedList(source=self.source)


def _grow(lengths: Sequence[int], enough: int) -> bool:
    """Whether there are enough of them, each longer by as much."""
    steps = {newer - older for older, newer in pairwise(lengths)}
    return len(lengths) == enough and len(steps) == 1 and min(steps) > 0


class CarriedList(Carried):
    """A list of which compiled code knows the type alone."""

    kind = list
    about = "A list that grows from call to call"
    why = "Compiled code cannot rely on a list that has another length each time."
    remedy = "Handle the list before or after the part that computes."

    def var_getattr(self, _tx: Any, name: str) -> VariableTracker:
        """A method, to be called outside of the graph."""
        return GetAttrVariable(self, name, py_type=types.BuiltinMethodType)

    tp_getattro_impl = var_getattr  # its name from torch 2.14 on
    call_method = Carried.refuse
