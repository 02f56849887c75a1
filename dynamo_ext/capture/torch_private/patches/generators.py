"""Generators that leave compiled code: they are made by Python, and stay what they are.

Torch would run one to its end while it traces, and give an iterator over what it yielded. So
tracing restarts where one leaves, and the graph ends at the call that makes it.
"""

import functools
import types
import weakref
from typing import Any, NoReturn

from torch._dynamo.exc import SpeculationRestartAnalysis, unimplemented
from torch._dynamo.variables import functions

from dynamo_ext.capture.code.block import block_of
from dynamo_ext.capture.torch_private import code_cache, traced_frames

_Place = tuple[str, int, str, int | None]

_leaving: weakref.WeakKeyDictionary[types.CodeType, set[_Place]] = weakref.WeakKeyDictionary()
"""By the code of a frame, where it makes generators that leave it."""
code_cache.learned.append(_leaving)

GIVE_A_LIST = (
    "Give a list in its place, as in SGD(list(model.parameters())), or build the optimizer before "
    "the compiled code, as in a cell of its own."
)
USE_IT_UP = "Use it up where it is made, as list() and sum() do, to have it captured."


class _Manager(functions.ContextlibContextManagerLocalGeneratorObjectVariable):
    # Upstream walks through the globals of a generator that a break finds under way, as if they
    # were variables of its own, and never ends where one holds itself. Builtins do, once names of
    # Dynamo's wait among them (capture/code/dynamo_globals.py).
    _nonvar_fields = {  # noqa: RUF012 - torch's own form
        "f_globals",
        *functions.ContextlibContextManagerLocalGeneratorObjectVariable._nonvar_fields,
    }


class _Generator(functions.LocalGeneratorObjectVariable):
    """A generator that is not to leave the code that is traced."""

    _nonvar_fields = _Manager._nonvar_fields

    def __init__(self, *parts: Any, place: _Place | None = None, **options: Any) -> None:
        super().__init__(*parts, **options)
        self.place = place

    def reconstruct(self, codegen: Any) -> None:
        """Restart tracing: what comes after the graph is to have it."""
        self._leave(codegen.tx.output.root_tx)

    def tp_iter_impl(self, tx: Any) -> Any:
        """Itself, unless the frame returns it."""
        self._leave_if_returned(tx)
        return super().tp_iter_impl(tx)

    def force_unpack_var_sequence(self, tx: Any) -> Any:
        """Its items, unless the frame returns it: torch 2.11 and 2.12 ask for them."""
        self._leave_if_returned(tx)
        return super().force_unpack_var_sequence(tx)  # type: ignore[misc]

    def _leave_if_returned(self, tx: Any) -> None:
        """Restart tracing where the frame returns it, since upstream reads its items."""
        root = tx.output.root_tx
        if tx is root and root.current_instruction.opname == "RETURN_VALUE":
            self._leave(root)

    def _leave(self, root: Any) -> NoReturn:
        known = _leaving.setdefault(root.f_code, set())
        if self.place is None or self.place in known:
            # Another look would come here again.
            _refuse(root, self.code)
        known.add(self.place)
        raise SpeculationRestartAnalysis(restart_reason="a generator leaves the compiled code")


def prepare(tx: Any, function: Any) -> None:
    """Have a generator function make generators that do not leave what is traced."""
    if not isinstance(function, functions.LocalGeneratorFunctionVariable):
        return
    code, root = tx.f_code, tx.output.root_tx
    place = (code.co_filename, code.co_firstlineno, code.co_qualname, tx.instruction_pointer)
    if place in _leaving.get(root.f_code, ()):
        _refuse(root, function.get_code())
    manager = isinstance(function, functions.FunctionDecoratedByContextlibContextManagerVariable)
    made: Any = _Manager if manager else functools.partial(_Generator, place=place)
    function.generator_cls = made


def _refuse(root: Any, code: types.CodeType) -> NoReturn:
    of_torch = traced_frames.is_library_code(code)
    unimplemented(
        gb_type="A generator that leaves the compiled code",
        context=code.co_qualname,
        explanation="What a generator yields is computed when it is asked for: Python makes it.",
        hints=[GIVE_A_LIST if of_torch else USE_IT_UP],
        # Of a cell, what cannot be set apart as Python is left to it: what goes on with an
        # optimizer that is given a generator would be recompiled for each.
        skip_frame=block_of(code_cache.users_code(root.f_code)) is not None,
    )
