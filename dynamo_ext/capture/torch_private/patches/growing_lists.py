"""Lists that grow from call to call, as ``self.losses.append(loss.item())`` has them grow.

Torch guards on a list's length, and leaves the function to eager after eight versions. Where three
did not fit, each for a list longer by as much, the next one knows only that it is a list: what is
done with it ends the graph.
"""

import re
import types
import weakref
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from typing import Any, NoReturn

from torch._dynamo.exc import unimplemented
from torch._dynamo.guards import GuardBuilder
from torch._dynamo.variables.base import VariableTracker
from torch._dynamo.variables.misc import GetAttrVariable

from dynamo_ext.capture.torch_private.patches.opaque_value import Carried
from dynamo_ext.capture.torch_private.patches.registry import learned, on_recompile, wrappers

_growing: weakref.WeakKeyDictionary[types.CodeType, set[str]] = weakref.WeakKeyDictionary()
learned.append(_growing)
_LENGTH = re.compile(
    r"\s*(?:-?\s*\d+/\d+:\s*)?"
    r"(?:len\((?P<list>.+?)\) == (?P<length>\d+)|not (?P<empty>[\w.\[\]'\"]+))"
)
_LOCAL = re.compile(r"\bL\['(\w+)'\]")

_ENOUGH = 3
"""Versions, each for as many more elements, after which a list counts as growing."""


@on_recompile.append
def note_growing(code: types.CodeType, reasons: Iterable[str]) -> None:
    """See whether a frame compiles again and again for a list that grew."""
    if found := _grown(reasons):
        _growing.setdefault(code, set()).update(found)


def _grown(reasons: Iterable[str]) -> set[str]:
    lengths: dict[str, list[int]] = {}
    for reason in reasons:
        if found := _LENGTH.match(reason):
            seen = lengths.setdefault(found["list"] or found["empty"], [])
            seen.append(int(found["length"] or 0))
    return {_plain(source) for source, seen in lengths.items() if _grew(seen)}


def _grew(lengths: Sequence[int]) -> bool:
    """Whether versions, the newest first, were made for more and more elements."""
    steps = {newer - older for newer, older in pairwise(lengths)}
    return len(lengths) >= _ENOUGH and len(steps) == 1 and min(steps) > 0


@wrappers.append
def wrap(_upstream: Callable[..., Any], self: Any, value: Any) -> Any:
    """Carry a list that a frame of this code was seen to find longer each time."""
    known = _growing.get(self.tx.output.root_tx.f_code, ())
    if type(value) is not list or _plain(self.source.name) not in known:
        return None
    self.install_guards(GuardBuilder.TYPE_MATCH)
    return CarriedList(source=self.source)


def _plain(name: str) -> str:
    """A source as the failures of guards name it: ``self.losses`` for ``L['self'].losses``."""
    return _LOCAL.sub(r"\1", name)


class CarriedList(Carried):
    """A list of which compiled code knows the type alone."""

    def python_type(self) -> type:
        """Its type, on which there is a guard."""
        return list

    def var_getattr(self, _tx: Any, name: str) -> VariableTracker:
        """A method, to be called outside of the graph."""
        return GetAttrVariable(self, name, py_type=types.BuiltinMethodType)

    tp_getattro_impl = var_getattr  # its name from torch 2.14 on

    def refuse(self, *_: Any, **__: Any) -> NoReturn:
        """End the graph."""
        unimplemented(
            gb_type="A list that grows from call to call",
            context="",
            explanation="Compiled code cannot rely on a list that has another length each time.",
            hints=["Handle the list before or after the part that computes."],
        )

    call_method = refuse
