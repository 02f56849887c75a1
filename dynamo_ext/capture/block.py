"""Statements of a cell that Dynamo gets as one function, and how they come apart.

Dynamo gives a frame up as a whole where a graph break stands in a loop of it (its compiled code
cannot resume in the middle of one). A cell need not lose its loop to that: the loop itself is run
as plain Python, and each run of its body is a function of its own, which can break and resume.
So a block that cannot be captured whole is divided, at its loops and ``with`` statements, into
blocks that may be. Nothing is divided before Dynamo has said that it must be.
"""

from __future__ import annotations

import ast
import copy
import weakref
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from dynamo_ext.capture.cell_function import function_code

if TYPE_CHECKING:
    import types
    from collections.abc import Iterator, Sequence

    from dynamo_ext.capture.cell_function import Origin
    from dynamo_ext.records import GraphBreak

CONTINUE, BREAK = 1, 2
"""What a loop's body gives back where it ended with that statement (``None``: at its end)."""

STEP = "__dynamo_ext_step__"
_SIGNAL = "__dynamo_ext_signal__"
_LOOPS = (ast.For, ast.While)
_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_Loop = TypeVar("_Loop", ast.For, ast.While)


class NotWholeError(BaseException):
    """Dynamo cannot capture a block whole, and nothing of it has run yet.

    Raised out of Dynamo's frame callback; no ``Exception``, which Dynamo would take for its own.

    Parameters
    ----------
    block
        The block.
    line
        Where, if that is in the block itself and not in a function it calls.
    resumes
        Whether Dynamo would have gone on after that line.
    """

    def __init__(self, block: Block, line: int | None, *, resumes: bool) -> None:
        super().__init__()
        self.block = block
        self.line = line
        self.resumes = resumes


class Block:
    """Consecutive statements as the code of one function.

    ``parts`` is empty until ``divide``; from then on they are run in the block's place.
    ``condition_breaks`` are those at the condition of a ``while`` or ``if`` that is run as plain
    Python since then, which no captured frame tells of.
    """

    def __init__(
        self, nodes: Sequence[ast.stmt], origin: Origin, shown: ast.Expr | None = None
    ) -> None:
        self._nodes = tuple(nodes)
        self._shown = shown
        self._origin = origin
        self.code = function_code(self._nodes, origin, shown)
        self.parts: tuple[Block | Compound, ...] = ()
        self.condition_breaks: tuple[GraphBreak, ...] = ()
        _blocks[id(self.code)] = self

    def refuse(self, line: int | None) -> None:
        """Raise ``NotWholeError`` if it can be divided: Dynamo gives it up because of ``line``."""
        if any(map(_divides, self._nodes)):
            raise NotWholeError(self, line, resumes=False)

    def refuse_half(self, stack: Sequence[Any]) -> None:
        """Raise ``NotWholeError`` if there is a graph break at ``stack``, and a loop to come.

        What follows a break becomes a function that resumes in its middle; a break in the loop
        gives that function up as a whole, and by then it is too late to divide it.

        Parameters
        ----------
        stack
            ``traceback.FrameSummary`` objects, outermost first; nothing where there is no break.
        """
        lines = [s.lineno for s in stack if s.filename == self.code.co_filename]
        line = lines[0] if lines else 0
        if stack and any(_has_loop(n) and (n.end_lineno or 0) >= line for n in self._nodes):
            raise NotWholeError(self, line or None, resumes=True)

    def is_condition(self, line: int | None) -> bool:
        """Whether it is one ``while`` or ``if`` statement, and ``line`` its condition's."""
        first = self._nodes[0]
        one = len(self._nodes) == 1 and isinstance(first, (ast.While, ast.If))
        return one and line is not None and line < _first_line(first.body[0])  # type: ignore[attr-defined]

    def divide(self, why: NotWholeError) -> None:
        """Make ``parts``: around the line where Dynamo would resume, or at a loop."""
        nodes = self._nodes
        if why.resumes and why.line is not None and len(nodes) > 1:
            self.parts = tuple(self._around(why.line))
            return
        first = next(i for i, node in enumerate(nodes) if _divides(node))
        alone = sum(map(_divides, nodes)) == 1
        if first:
            rest = self._block(nodes[first:], last=True)
            self.parts = (self._block(nodes[:first]), rest)
            if alone and (why.line is None or why.line >= _first_line(nodes[first])):
                rest.divide(why)
        elif alone:
            after = nodes[1:] or self._shown is not None
            rests = (self._block(nodes[1:], last=True),) if after else ()
            self.parts = (compound(nodes[0], self._origin), *rests)
        else:
            self.parts = (self._block(nodes[:1]), self._block(nodes[1:], last=True))

    def codes(self) -> Iterator[types.CodeType]:
        """Its own code, and that of all parts."""
        yield self.code
        for part in self.parts:
            yield from part.codes()

    def _around(self, line: int) -> Iterator[Block]:
        nodes = self._nodes
        end = next((i for i, n in enumerate(nodes) if (n.end_lineno or 0) >= line), len(nodes))
        if end < len(nodes) and _divides(nodes[end]):
            before, there = nodes[:end], nodes[end : end + 1]
        else:
            before, there = nodes[: end + 1], ()
        after = nodes[len(before) + len(there) :]
        shown = self._shown is not None
        if before:
            yield self._block(before, last=not there and not after and not shown)
        if there:
            yield self._block(there)
        if after or shown:
            yield self._block(after, last=True)

    def _block(self, nodes: Sequence[ast.stmt], *, last: bool = False) -> Block:
        return Block(nodes, self._origin, self._shown if last else None)


@dataclass(frozen=True)
class Compound:
    """A loop, ``with`` or ``if`` statement: its header as plain Python, its suites as blocks.

    ``driver`` is the code of a function of one argument, a function that runs the suite of a
    number and gives back ``CONTINUE``, ``BREAK`` or ``None``.
    """

    driver: types.CodeType
    suites: tuple[Block, ...]

    def codes(self) -> Iterator[types.CodeType]:
        """The code of all suites, and of the driver."""
        yield self.driver
        for suite in self.suites:
            yield from suite.codes()


def block_of(code: types.CodeType | None) -> Block | None:
    """The block whose code this is."""
    found = _blocks.get(id(code))
    return found if found is not None and found.code is code else None


def is_driver(code: types.CodeType) -> bool:
    """Whether this is code that ``compound`` made."""
    return code.co_varnames[:1] == (STEP,)


# By identity: code objects compare by content, and two bodies may be equal.
_blocks: weakref.WeakValueDictionary[int, Block] = weakref.WeakValueDictionary()


def compound(node: ast.stmt, origin: Origin) -> Compound:
    """Divide one statement into its header and its suites."""
    suites: list[Block] = []

    def step(nodes: Sequence[ast.stmt]) -> ast.expr:
        suites.append(Block(nodes, origin))
        number = ast.Constant(len(suites) - 1)
        return ast.Call(ast.Name(STEP, ast.Load()), [number], [])

    def suite(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
        if not nodes:
            return []
        signal = ast.NamedExpr(ast.Name(_SIGNAL, ast.Store()), step(nodes))
        return [ast.If(signal, [ast.Return(ast.Name(_SIGNAL, ast.Load()))], [])]

    def body(nodes: Sequence[ast.stmt]) -> list[ast.stmt]:
        signals = [_Signals().visit(copy.deepcopy(n)) for n in nodes]
        ended = ast.Compare(step(signals), [ast.Eq()], [ast.Constant(BREAK)])
        return [ast.If(ended, [ast.Break()], [])]

    driven = copy.copy(node)
    if isinstance(driven, _LOOPS):
        driven.body, driven.orelse = body(driven.body), suite(driven.orelse)
    elif isinstance(driven, ast.If):
        driven.body, driven.orelse = suite(driven.body), suite(driven.orelse)
    elif isinstance(driven, ast.With):
        driven.body = suite(driven.body)
    else:
        raise TypeError(type(node))
    return Compound(function_code([driven], origin, arguments=(STEP,)), tuple(suites))


class _Signals(ast.NodeTransformer):
    """``continue`` and ``break`` of the loop whose body this is, as values to return."""

    def visit_Continue(self, node: ast.Continue) -> ast.stmt:
        return ast.copy_location(ast.Return(ast.Constant(CONTINUE)), node)

    def visit_Break(self, node: ast.Break) -> ast.stmt:
        return ast.copy_location(ast.Return(ast.Constant(BREAK)), node)

    def visit_For(self, node: ast.For) -> ast.stmt:
        return self._inner(node)

    def visit_While(self, node: ast.While) -> ast.stmt:
        return self._inner(node)

    def _inner(self, node: _Loop) -> _Loop:
        node.orelse = [self.visit(n) for n in node.orelse]
        return node

    def generic_visit(self, node: ast.AST) -> ast.AST:
        return node if isinstance(node, _SCOPES) else super().generic_visit(node)


def _divides(node: ast.stmt) -> bool:
    return isinstance(node, (*_LOOPS, ast.With)) or (
        isinstance(node, ast.If) and any(map(_divides, [*node.body, *node.orelse]))
    )


def _has_loop(node: ast.stmt) -> bool:
    if isinstance(node, ast.With):
        return any(map(_has_loop, node.body))
    if isinstance(node, ast.If):
        return any(map(_has_loop, [*node.body, *node.orelse]))
    return isinstance(node, _LOOPS)


def _first_line(node: ast.stmt) -> int:
    return getattr(node, "lineno", 1)
