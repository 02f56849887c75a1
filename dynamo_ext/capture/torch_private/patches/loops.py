"""Loops that Dynamo would unroll into one graph, turn by turn, for longer than that pays.

A loop of a cell is given up after ``MOST_TURNS`` turns or ``MOST_OPERATIONS`` operations, and runs
turn by turn (``Block.split_at``). A function that a cell calls is traced with all its loops; one
whose turns call the same modules and functions again and again runs in Python, and what it calls is
captured by itself. Both are decided before anything has run.
"""

from __future__ import annotations

import dis
import time
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from torch._dynamo.variables.lists import (
    BaseListVariable,
    ListIteratorVariable,
    RangeIteratorVariable,
)
from torch._dynamo.variables.nn_module import UnspecializedNNModuleVariable
from torch._dynamo.variables.tensor import TensorVariable
from torch._guards import TracingContext
from torch.utils.weak import WeakIdKeyDictionary

from dynamo_ext.capture.code.block import block_of
from dynamo_ext.capture.torch_private.code_cache import learned, users_code
from dynamo_ext.capture.torch_private.compile_settings import TORCH
from dynamo_ext.capture.torch_private.patches.calls import StaysPythonError
from dynamo_ext.capture.torch_private.patches.registry import (
    end_graph,
    inliners,
    patches_instruction,
)

MOST_TURNS, MOST_OPERATIONS = 64, 300
"""Of a loop of a cell: fusing pays below."""

_ALIKE, _OPERATIONS, _DEPTH = 16, 1000, 16
"""Of a function: turns with the same callees, what they put into the graph, and how often it calls
itself."""

_INSTRUCTIONS, _SECONDS = 50_000, 5.0
"""What is traced of one loop of a function, whatever it calls."""

clock = time.perf_counter

_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}

# By identity: some code that Dynamo makes has no hash.
python_loops = WeakIdKeyDictionary()
"""Code of functions whose loops run in Python."""
learned.append(python_loops)


@dataclass
class _Turns:
    """What was traced of one loop of one frame; ``called`` are the callees of this turn."""

    operations_before: int
    started: float
    count: int = 0
    alike: int = 0
    called: set[tuple[int, int]] = field(default_factory=set)
    called_before: set[tuple[int, int]] = field(default_factory=set)


def _frames(tx: Any) -> Iterator[Any]:
    while tx is not None:
        yield tx
        # Only frames that are inlined have one on all torches.
        tx = getattr(tx, "parent", None)


def _loops(tx: Any) -> dict[int, _Turns]:
    return vars(tx).setdefault("_dynamo_ext_loops", {})  # type: ignore[no-any-return]


def _owner(tx: Any) -> Any:
    """The frame that a loop is given up with: no comprehension, and none of torch's own code."""
    own = (
        each
        for each in _frames(tx)
        if each.f_code.co_name not in _COMPREHENSIONS
        and not each.f_code.co_filename.startswith(TORCH)
    )
    return next(own, tx.output.root_tx)


def _give_up(tx: Any, why: str) -> None:
    owner = _owner(tx)
    code = users_code(owner.f_code) or owner.f_code
    message = f"`{code.co_qualname}` runs in Python: {why}"
    in_cell = block_of(code) is not None
    if not in_cell:
        python_loops[code] = True
    if owner is tx.output.root_tx:
        raise StaysPythonError(message, REMEDY, TracingContext.extract_stack(), once=not in_cell)
    _refuse(code, message)


MESSAGE = "`{}` runs in Python: its loops have many turns"
REMEDY = "Put what a turn does into a function, which is then captured by itself."


def _refuse(code: types.CodeType, message: str) -> None:
    end_graph("Call of a function with a loop of many turns", code.co_qualname, message, REMEDY)


@patches_instruction(*(name for name in dis.opmap if "JUMP_BACKWARD" in name))
def end_turn(upstream: Callable[..., Any], tx: Any, inst: Any) -> Any:
    """Count a turn of a loop, and give it up where it is too long."""
    output = tx.output
    if not output.root_tx.one_graph and inst.target is not None:
        operations = len(output.graph.nodes)
        loops = _loops(tx)
        turns = loops.setdefault(id(inst.target), _Turns(operations, clock()))
        turns.alike = turns.alike + 1 if turns.called == turns.called_before else 0
        turns.count += 1
        turns.called, turns.called_before = set(), turns.called
        added = operations - turns.operations_before
        span = tx.indexof[inst] - tx.indexof[inst.target]
        owner = _owner(tx).f_code
        # A container of torch's that the cell calls has a loop of its own.
        own = owner.co_filename == tx.f_code.co_filename
        in_cell = own and block_of(users_code(owner)) is not None
        if in_cell and (turns.count >= MOST_TURNS or added >= MOST_OPERATIONS):
            _give_up(tx, "its loop has many turns.")
        # After some turns, the others are taken to be as they are.
        whole = turns.count + (_left(tx.stack) if turns.count >= MOST_TURNS else 0)
        more = whole / turns.count
        long = added * more >= _OPERATIONS or (clock() - turns.started) * more >= _SECONDS
        if (turns.alike >= _ALIKE and long) or whole * span >= _INSTRUCTIONS:
            _give_up(tx, f"{whole} turns of its loop would be {round(added * more)} operations.")
    return upstream(tx, inst)


@patches_instruction("GET_ITER")
def begin_loop(upstream: Callable[..., Any], tx: Any, inst: Any) -> Any:
    """Give up a loop of a cell that is known to have many turns before it begins."""
    root = tx.output.root_tx
    if tx is root and not root.one_graph and block_of(users_code(tx.f_code)) is not None:
        turns = _length(tx.stack[-1].realize())
        if turns > MOST_TURNS:
            _give_up(tx, f"its loop has {turns} turns.")
    return upstream(tx, inst)


def _left(stack: list[Any]) -> int:
    """Turns that the loop at whose end this is has left; 0 where that is not known."""
    iterator = stack[-1] if stack else None
    if isinstance(iterator, RangeIteratorVariable):
        return iterator.len
    return len(iterator.items) - iterator.index if isinstance(iterator, ListIteratorVariable) else 0


def _length(iterable: Any) -> int:
    """Turns of a loop over it; 0 where that is not known before it begins."""
    if range_length := getattr(iterable, "range_length", None):
        known = all(each.is_python_constant() for each in iterable.items)
        return range_length() if known else 0
    if isinstance(iterable, BaseListVariable):
        return len(iterable.items)
    size = getattr(iterable, "size", None) if isinstance(iterable, TensorVariable) else None
    return size[0] if size and isinstance(size[0], int) else 0


@inliners.append
def inline(
    _upstream: Callable[..., Any], tx: Any, function: Any, args: Any, *_: Any, **__: Any
) -> None:
    """Refuse a function whose loops run in Python; take down what the loops around call."""
    if tx.output.root_tx.one_graph:
        return
    code = function.get_code()
    if code in python_loops:
        _refuse(code, MESSAGE.format(code.co_qualname))
    frames = list(_frames(tx))
    module = args and args[0].is_realized() and args[0].realize()
    called = id(code), id(module.value) if isinstance(module, UnspecializedNNModuleVariable) else 0
    for each in frames:
        for turns in _loops(each).values():
            turns.called.add(called)
    if sum(each.f_code is code for each in frames) >= _DEPTH:
        _give_up(tx, f"it calls itself {_DEPTH} times and more.")
