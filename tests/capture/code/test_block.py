"""Blocks of statements: what they refuse, and how they come apart."""

from __future__ import annotations

import ast
import gc
import threading
import traceback
from typing import TYPE_CHECKING, Any

import pytest

from dynamo_ext.capture.code import block as code_block
from dynamo_ext.capture.code.function_code import Origin

if TYPE_CHECKING:
    from collections.abc import Callable


def block(text: str, *, is_loop_body: bool = False) -> code_block.Block:
    stored = frozenset(n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name))
    origin = Origin(stored - {"print", "range", "log"}, "<cell>", compile)  # type: ignore[arg-type]
    return code_block.Block(ast.parse(text).body, origin, is_loop_body=is_loop_body)


def refused(refuse: Callable[..., None], *args: Any) -> code_block.Block:
    """The block that refuses to be captured whole, divided."""
    with pytest.raises(code_block.SplitBlockError) as raised:
        refuse(*args)
    raised.value.divide()
    return raised.value.block


def at(line: int, file: str = "<cell>") -> list[traceback.FrameSummary]:
    return [traceback.FrameSummary(file, line, "<module>", line="")]


def shape(found: code_block.Block) -> list[Any]:
    """The parts: lines of a block, or the suites of a statement."""
    return [
        sorted({n.lineno for n in p._nodes})
        if isinstance(p, code_block.Block)
        else list(map(shape, p.suites))  # type: ignore[attr-defined]
        for p in found.parts
    ]


@pytest.mark.usefixtures("older_objects_frozen")
def test_a_block_is_found_by_its_code_as_long_as_it_lives() -> None:
    found = block("x = 1")
    code = found.code
    assert code_block.block_of(code) is found
    assert code_block.block_of(None) is None
    del found
    gc.collect()
    assert code_block.block_of(code) is None


def test_what_cannot_be_divided_refuses_nothing() -> None:
    found = block("if x:\n    y = 2\n    z = 3")
    found.split_at(2)
    found.split_at_break(at(2))
    block("x = 1\ny = 2").split_at(None)


@pytest.mark.parametrize(
    ("line", "parts"), [(1, [[1], [2, 4]]), (3, [[1], [2], [4]]), (4, [[1, 2], [4]])]
)
def test_a_statement_that_is_given_up_leaves_the_rest(line: int, parts: list[Any]) -> None:
    text = "a = 1\nif b:\n    c = 2\nd = 3"
    assert shape(refused(block(text).split_at, line)) == parts
    assert shape(refused(block(text).split_at, None, line)) == parts


def test_an_expression_that_is_given_up_leaves_the_statements() -> None:
    stored, shown = frozenset({"a", "b"}), ast.parse("a\n\nb").body[1]
    origin = Origin(stored, "<cell>", compile)  # type: ignore[arg-type]
    for line, parts in ((1, [[1], []]), (3, [[1], []])):
        found = code_block.Block(ast.parse("a = 1").body, origin, shown)  # type: ignore[arg-type]
        assert shape(refused(found.split_at, line)) == parts


@pytest.mark.parametrize("text", ["for i in a: x = i", "while a: x = 1", "with a: x = 1"])
def test_a_loop_or_with_is_refused(text: str) -> None:
    with pytest.raises(code_block.SplitBlockError):
        block(text).split_at(None)
    with pytest.raises(code_block.SplitBlockError):
        block(f"if b:\n    {text}").split_at(None)


def test_a_break_before_a_loop_refuses_and_one_after_it_does_not() -> None:
    text = "a = 1\nb = 2\nfor i in c:\n    x = i\nd = 3"
    assert shape(refused(block(text).split_at_break, at(2))) == [[1, 2], [3, 5]]
    block(text).split_at_break(at(5))
    block(text).split_at_break([])
    block("with a:\n    b = 1\nc = 2").split_at_break(at(1))


def test_a_break_inside_a_loop_divides_on_both_sides_of_it() -> None:
    found = block("a = 1\nwith b:\n    for c in d:\n        e = 4\nfor i in c:\n    x = i")
    assert shape(refused(found.split_at_break, at(4))) == [[1], [2], [5]]


def test_a_break_in_a_function_that_is_called_divides_at_a_loop() -> None:
    found = block("a = 1\nfor i in c:\n    x = i")
    assert shape(refused(found.split_at_break, at(7, "<other>"))) == [[1], [2]]


def test_a_break_in_the_only_statement_takes_it_apart() -> None:
    found = refused(
        block("with a:\n    b = 1\n    for i in c:\n        x = i").split_at_break, at(2)
    )
    assert shape(found) == [[[]]]
    (driven,) = found.parts
    assert isinstance(driven, code_block.ControlFlow)


def test_the_only_loop_is_taken_apart_at_once() -> None:
    found = block("a = 1\nfor i in c:\n    x = i\nelse:\n    y = 2\nd = 3")
    assert shape(refused(found.split_at, 3)) == [[1], [2, 6]]
    (_, rest) = found.parts
    assert isinstance(rest, code_block.Block)
    assert shape(rest) == [[[], []], [6]]
    driven = rest.parts[0]
    assert isinstance(driven, code_block.ControlFlow)
    assert code_block.is_header(driven.header_code)
    assert not code_block.is_header(found.code)
    codes = list(found.codes())
    assert len(codes) == len(set(map(id, codes))) == 7


def test_a_failure_before_the_loop_leaves_the_loop_a_chance() -> None:
    found = refused(block("a = 1\nb = 2\nfor i in c:\n    x = i").split_at, 2)
    assert shape(found) == [[1, 2], [3]]
    assert all(isinstance(part, code_block.Block) and not part.parts for part in found.parts)


def test_of_several_loops_each_is_tried() -> None:
    found = refused(block("for i in c:\n    x = i\nfor j in c:\n    y = j\nz = 3").split_at, None)
    assert shape(found) == [[1], [3, 5]]


def test_a_turn_is_divided_at_a_break() -> None:
    text = "a = 1\nb = 2\nc = 3"
    block(text).split_at_break(at(2))
    assert shape(refused(block(text, is_loop_body=True).split_at_break, at(2), 1)) == [
        [1],
        [2],
        [3],
    ]
    assert shape(refused(block(text, is_loop_body=True).split_at_break, at(2), 2)) == [[1, 2], [3]]
    assert shape(refused(block(text, is_loop_body=True).split_at_break, at(3), 2)) == [[1, 2], [3]]
    block(text, is_loop_body=True).split_at_break(at(3), 3)
    block("a = 1", is_loop_body=True).split_at_break(at(1))
    block(text, is_loop_body=True).split_at_break(at(9, "<other>"))


def test_a_body_is_a_turn_and_so_are_its_parts() -> None:
    found = refused(
        block("with w:\n    for i in c:\n        with d:\n            e = 1").split_at, None
    )
    (outer,) = found.parts
    assert isinstance(outer, code_block.ControlFlow)
    (suite,) = outer.suites
    assert not suite.is_loop_body
    (loop,) = refused(suite.split_at, None).parts
    assert isinstance(loop, code_block.ControlFlow)
    (body,) = loop.suites
    assert body.is_loop_body
    (inner,) = refused(body.split_at, None).parts
    assert isinstance(inner, code_block.ControlFlow)
    assert inner.suites[0].is_loop_body


def test_a_turn_without_a_graph_becomes_plain() -> None:
    block("if a:\n    for i in b: c = i", is_loop_body=True).split_if_empty()
    kept = block("log.append(a)", is_loop_body=True)
    kept.has_graphs = True
    kept.split_if_empty()
    assert refused(block("log.append(a)", is_loop_body=True).split_if_empty).plain


def test_a_body_is_copied_without_what_hangs_on_its_operators(monkeypatch: Any) -> None:
    minus: Any = ast.parse("-a", mode="eval").body
    monkeypatch.setattr(minus.op, "parent", threading.Lock(), raising=False)
    assert shape(refused(block("for a in b: c = -a").split_at, 1)) == [[[]]]


def test_what_handles_an_error_is_no_suite() -> None:
    text = (
        "try:\n    for a in b: c = 1\nexcept E:\n    d = 1\nelse:\n    e = 1\nfinally:\n    f = 1"
    )
    assert shape(refused(block(text).split_at, 2)) == [[[], []]]
    block("try:\n    a = 1\nexcept E:\n    for b in c: d = 1").split_at(2)


def test_other_statements_are_no_compounds() -> None:
    (node,) = ast.parse("match x:\n    case 1:\n        y = 2").body
    with pytest.raises(TypeError):
        code_block.split_statement(node, Origin(frozenset(), "<cell>", compile))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("text", "line", "expected"),
    [
        ("while a:\n    b = 1", 1, True),
        ("while a:\n    b = 1", 2, False),
        ("if a:\n    b = 1", 1, True),
        ("for a in b:\n    c = 1", 1, False),
        ("b = 1\nwhile a:\n    b = 1", 2, False),
        ("while a:\n    b = 1", None, False),
    ],
)
def test_the_line_of_a_condition(text: str, line: int | None, expected: bool) -> None:
    assert block(text).is_condition(line) is expected
