"""Statements of a cell that Dynamo gets as one function, and how they are divided.

Dynamo gives up a frame as a whole where a graph break is in a loop of it, since compiled code
cannot resume in the middle of a loop. A block that cannot be captured whole is therefore divided at
its loops: the loop runs as plain Python, and each run of its body is a function, which can break
and resume. Without a loop, the statement that ends capture is set apart. Nothing is divided before
Dynamo has failed on it. Of a cell::

    y = f(x)
    for step in range(100):
        y = g(y)
        print(y.sum())
    z = h(y)

the parts are a function of ``y = f(x)``, the loop as Python, which calls a function of its body 100
times, and a function of ``z = h(y)``.
"""

from __future__ import annotations

import ast
import copy
import inspect
import types
import weakref
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from dynamo_ext.capture.code.function_code import SCOPES, Origin, function_code
from dynamo_ext.records.capture import GraphBreak

CONTINUE, BREAK = 1, 2
"""What a loop's body gives back where it ended with that statement (``None``: at its end)."""

STEP = "__dynamo_ext_step__"
_SIGNAL = "__dynamo_ext_signal__"
_LOOPS = (ast.For, ast.While)
_FUNCTION = inspect.CO_OPTIMIZED | inspect.CO_NEWLOCALS


@dataclass(eq=False)
class SplitBlockError(BaseException):
    """Dynamo is not to capture a block whole, and nothing of it has run yet.

    No ``Exception``, which Dynamo would take for its own. ``line`` is where, if in the block
    itself. ``parts`` take its place; without any, it runs as plain Python.
    """

    block: Block
    line: int | None
    parts: Sequence[Part] = ()

    def divide(self) -> None:
        """Have the block run by its parts from now on."""
        self.block.parts = tuple(self.parts)
        self.block.plain = not self.parts


@dataclass(eq=False)
class FinishedError(BaseException):
    """A block has run to its end as plain Python after a graph of it failed.

    Raised from the graph's call: the rest of the compiled frame has nothing left to do. No
    ``Exception``, which the user's code might catch.
    """

    block: Block
    value: Any


class Block:
    """Consecutive statements as the code of one function.

    ``shown`` is an expression after them whose value is the function's; ``is_loop_body``: they are
    (part of) the body of a loop that runs as plain Python. Once it is divided, ``parts`` run in its
    place, or its code as ``plain`` Python where nothing in it can be captured. ``condition_breaks``
    are graph breaks at the condition of a ``while`` or ``if`` that is plain Python.
    """

    def __init__(
        self,
        nodes: Sequence[ast.stmt],
        origin: Origin,
        shown: ast.Expr | None = None,
        *,
        is_loop_body: bool = False,
    ) -> None:
        self._nodes = tuple(nodes)
        self._shown = shown
        self._origin = origin
        self.is_loop_body = is_loop_body
        self.code = function_code(self._nodes, origin, shown)
        self.parts: tuple[Part, ...] = ()
        self.plain = False
        self.has_graphs = False
        self.condition_breaks: tuple[GraphBreak, ...] = ()
        _blocks[id(self.code)] = self

    def split_at(self, line: int | None, near: int | None = None) -> None:
        """Raise ``SplitBlockError`` if it can be divided: Dynamo gives it up because of ``line``.

        ``near`` is the line of the block that led to another place; only its statement is given up.
        """
        if any(map(_divides, self._nodes)):
            raise SplitBlockError(self, line, self._at_loops(line))
        if at := line or near:
            there = self._index(at)
            parts = self._cut(there, there + 1)
            if len(parts) > 1:
                raise SplitBlockError(self, line, parts)

    def split_at_break(self, stack: Sequence[Any], captured: int = 0) -> None:
        """Raise ``SplitBlockError`` if there is a graph break at ``stack``, and a loop to come.

        A break in the loop would give up the function that resumes after this one, too late to
        divide it. A turn of a loop is divided at each break, so that what changes with the turn (a
        list of losses) is guarded in a part of its own. ``stack`` is outermost first; ``captured``
        is the last line with an operation in the graph that ends there.
        """
        if not stack:
            return
        line = next((s.lineno for s in stack if s.filename == self.code.co_filename), None) or 0
        ahead = self.has_loop_from(line)
        cuts = self._cuts(line, captured)
        if ahead and not (cuts and line):
            self.split_at(line or None)
        if ahead or (self.is_loop_body and line and cuts):
            raise SplitBlockError(self, line, self._cut(*cuts))

    def split_if_empty(self) -> None:
        """Raise ``SplitBlockError`` if it, a turn that would be recompiled, holds no graph."""
        if not self.has_graphs and not any(map(_divides, self._nodes)):
            raise SplitBlockError(self, None)

    def has_loop_from(self, line: int) -> bool:
        """Whether a loop is at ``line`` or after it."""
        return any(_has_loop(n) and (n.end_lineno or 0) >= line for n in self._nodes)

    def is_condition(self, line: int | None) -> bool:
        """Whether it is one ``while`` or ``if`` statement, and ``line`` its condition's."""
        match self._nodes:
            case [ast.While() | ast.If() as only]:
                return line is not None and line < only.body[0].lineno
        return False

    @property
    def first_line(self) -> int:
        """Where it begins."""
        return [*self._nodes, self._shown][0].lineno  # type: ignore[union-attr]

    def codes(self) -> Iterator[types.CodeType]:
        """Its own code, and that of all parts."""
        yield self.code
        for part in self.parts:
            yield from part.codes()

    def _at_loops(self, line: int | None) -> Sequence[Part]:
        nodes = self._nodes
        first = next(i for i, node in enumerate(nodes) if _divides(node))
        alone = sum(map(_divides, nodes)) == 1
        if not alone:
            return self._cut(first or 1)
        if first:
            before, rest = self._cut(first)
            if line is None or line >= nodes[first].lineno:
                rest.parts = tuple(rest._at_loops(line))  # noqa: SLF001 - a block of its own
            return before, rest
        after = self._cut(1)[1:]
        return (split_statement(nodes[0], self._origin, is_loop_body=self.is_loop_body), *after)

    def _cuts(self, line: int, captured: int) -> list[int]:
        """Where parts begin if there is a break at ``line``."""
        nodes, there = self._nodes, self._index(line)
        cuts = [there + 1]
        if there < len(nodes):
            loop = _has_loop(nodes[there])
            if loop or (self.is_loop_body and captured < nodes[there].lineno):
                cuts.append(there)
        return [cut for cut in cuts if 0 < cut < len(nodes)]

    def _index(self, line: int) -> int:
        found = (i for i, node in enumerate(self._nodes) if (node.end_lineno or 0) >= line)
        return next(found, len(self._nodes))

    def _cut(self, *cuts: int) -> list[Block]:
        """Parts that begin at some of its statements, of which ``shown`` is the last."""
        end = len(self._nodes) + (self._shown is not None)
        bounds = [0, *sorted(cut for cut in cuts if 0 < cut < end), end]
        return [
            Block(
                self._nodes[start:stop],
                self._origin,
                self._shown if stop == end else None,
                is_loop_body=self.is_loop_body,
            )
            for start, stop in pairwise(bounds)
        ]


@dataclass(frozen=True)
class ControlFlow:
    """A loop, ``with``, ``if`` or ``try``: its header as plain Python, its suites as blocks.

    ``header_code`` takes a function that runs the suite of a number, and gives ``CONTINUE``,
    ``BREAK`` or ``None``. ``whole`` is a loop's code with its turns, and ``line`` where it is.
    """

    header_code: types.CodeType
    suites: tuple[Block, ...]
    whole: types.CodeType | None = None
    line: int = 0

    def codes(self) -> Iterator[types.CodeType]:
        """The code of all suites, and of the header."""
        yield self.header_code
        for suite in self.suites:
            yield from suite.codes()


Part = Block | ControlFlow


def module_function(code: types.CodeType, namespace: dict[str, Any]) -> types.FunctionType:
    """A function of a block's code whose local names are the namespace, as module code has it."""
    return types.FunctionType(code.replace(co_flags=code.co_flags & ~_FUNCTION), namespace)


def block_of(code: types.CodeType | None) -> Block | None:
    """The block whose code this is."""
    found = _blocks.get(id(code))
    return found if found is not None and found.code is code else None


def is_header(code: types.CodeType) -> bool:
    """Whether this is code that ``split_statement`` made."""
    return code.co_varnames[:1] == (STEP,)


def is_plain(code: types.CodeType) -> bool:
    """Whether this is code of a cell that is not to be captured itself; what it calls may be."""
    block = block_of(code)
    return block.plain if block is not None else is_header(code) or not code.co_flags & _FUNCTION


# By identity: code objects compare by content, and two bodies may be equal.
_blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()


def split_statement(node: ast.stmt, origin: Origin, *, is_loop_body: bool = False) -> ControlFlow:
    """Divide one statement into its header and its suites."""
    suites: list[Block] = []

    def step(nodes: Sequence[ast.stmt], *, is_loop_body: bool = is_loop_body) -> ast.expr:
        suites.append(Block(nodes, origin, is_loop_body=is_loop_body))
        number = ast.Constant(len(suites) - 1)
        return ast.Call(ast.Name(STEP, ast.Load()), [number], [])

    def suite(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
        if not nodes:
            return []
        signal = ast.NamedExpr(ast.Name(_SIGNAL, ast.Store()), step(nodes))
        return [ast.If(signal, [ast.Return(ast.Name(_SIGNAL, ast.Load()))], [])]

    def body(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
        signals = [_Signals().visit(_copied(n)) for n in nodes]
        ended = ast.Compare(step(signals, is_loop_body=True), [ast.Eq()], [ast.Constant(BREAK)])
        return [ast.If(ended, [ast.Break()], [])]

    driven = copy.copy(node)
    if isinstance(driven, _LOOPS):
        driven.body, driven.orelse = body(driven.body), suite(driven.orelse)
    elif isinstance(driven, (ast.If, ast.Try)):
        # What handles an error stays as it is: it may ask Python which one it is.
        driven.body, driven.orelse = suite(driven.body), suite(driven.orelse)
    elif isinstance(driven, ast.With):
        driven.body = suite(driven.body)
    else:
        raise TypeError(type(node))
    header = function_code([driven], origin, arguments=(STEP,))
    whole = function_code([node], origin) if isinstance(node, _LOOPS) else None
    return ControlFlow(header, tuple(suites), whole, node.lineno)


def _copied(node: ast.stmt) -> ast.stmt:
    # All trees share their operators, which `executing` gives a parent, and so another tree.
    own = {id(n): n for n in ast.walk(node) if not (n._fields or hasattr(n, "lineno"))}
    return copy.deepcopy(node, own)


class _Signals(ast.NodeTransformer):
    """``continue`` and ``break`` of the loop whose body this is, as values to return."""

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return ast.copy_location(ast.Return(ast.Constant(CONTINUE)), node)

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return ast.copy_location(ast.Return(ast.Constant(BREAK)), node)

    def visit_For(self, node: ast.For | ast.While) -> ast.stmt:
        node.orelse = [self.visit(n) for n in node.orelse]
        return node

    visit_While = visit_For  # noqa: N815 - the name that the visitor looks for

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, SCOPES) else super().generic_visit(node)


def _has_loop(node: ast.stmt, kinds: tuple[type[ast.stmt], ...] = _LOOPS) -> bool:
    return isinstance(node, kinds) or any(_has_loop(n, kinds) for n in _statements_in(node))


def _divides(node: ast.stmt) -> bool:
    return _has_loop(node, (*_LOOPS, ast.With))


def _statements_in(node: ast.stmt) -> list[ast.stmt]:
    """What a ``with``, ``if`` or ``try`` runs, but for the handlers of errors."""
    within = isinstance(node, (ast.With, ast.If, ast.Try))
    return [*node.body, *getattr(node, "orelse", ())] if within else []  # type: ignore[attr-defined]
