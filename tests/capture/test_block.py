"""Blocks of statements: what they refuse, and how they come apart."""

from __future__ import annotations

import ast
import gc
import traceback
import types
from typing import Any

import pytest

from dynamo_ext.capture.block import Block, Compound, NotWholeError, block_of, compound, is_driver
from dynamo_ext.capture.cell_function import Origin


def block(text: str) -> Block:
    stored = frozenset(n.id for n in ast.walk(ast.parse(text)) if isinstance(n, ast.Name))
    origin = Origin(stored - {"print", "range", "log"}, "<cell>", compile)  # type: ignore[arg-type]
    return Block(ast.parse(text).body, origin)


def at(line: int, file: str = "<cell>") -> list[traceback.FrameSummary]:
    return [traceback.FrameSummary(file, line, "<module>", line="")]


def shape(found: Block) -> list[Any]:
    """The parts: lines of a block, or the suites of a statement."""
    return [
        sorted({n.lineno for n in p._nodes}) if isinstance(p, Block) else list(map(shape, p.suites))  # type: ignore[attr-defined]
        for p in found.parts
    ]


def run(found: Block | Compound, namespace: dict[str, Any]) -> Any:
    """Run by parts all the way down, as a cell's stepper does, without Dynamo."""
    if isinstance(found, Compound):
        function = types.FunctionType(found.driver, namespace)
        return function(lambda number: run(found.suites[number], namespace))
    for part in found.parts:
        value = run(part, namespace)
        if value is not None:
            return value
    return None if found.parts else types.FunctionType(found.code, namespace)()


def divide_all(found: Block | Compound) -> None:
    inner = found.suites if isinstance(found, Compound) else (found,)
    for one in inner:
        try:
            one.refuse(None)
        except NotWholeError as why:
            one.divide(why)
        for part in one.parts:
            divide_all(part)


def test_a_block_is_found_by_its_code_as_long_as_it_lives() -> None:
    found = block("x = 1")
    code = found.code
    assert block_of(code) is found
    assert block_of(None) is None
    del found
    gc.collect()
    assert block_of(code) is None


def test_what_cannot_be_divided_refuses_nothing() -> None:
    found = block("x = 1\nif x:\n    y = 2\ntry:\n    z = 3\nfinally:\n    w = 4")
    found.refuse(2)
    found.refuse_half(at(2))


@pytest.mark.parametrize("text", ["for i in a: x = i", "while a: x = 1", "with a: x = 1"])
def test_a_loop_or_with_is_refused(text: str) -> None:
    with pytest.raises(NotWholeError):
        block(text).refuse(None)
    with pytest.raises(NotWholeError):
        block(f"if b:\n    {text}").refuse(None)


def test_a_break_before_a_loop_refuses_and_one_after_it_does_not() -> None:
    text = "a = 1\nb = 2\nfor i in c:\n    x = i\nd = 3"
    with pytest.raises(NotWholeError) as raised:
        block(text).refuse_half(at(2))
    assert raised.value.line == 2
    assert raised.value.resumes
    block(text).refuse_half(at(5))
    block(text).refuse_half([])
    block("with a:\n    b = 1\nc = 2").refuse_half(at(1))


def test_where_dynamo_would_resume_it_is_divided() -> None:
    found = block("a = 1\nb = 2\nc = 3\nfor i in c:\n    x = i\nd = 3")
    with pytest.raises(NotWholeError) as raised:
        found.refuse_half(at(2))
    found.divide(raised.value)
    assert shape(found) == [[1, 2], [3, 4, 6]]


def test_a_break_inside_a_statement_divides_on_both_sides_of_it() -> None:
    found = block("a = 1\nwith b:\n    c = 3\nfor i in c:\n    x = i")
    found.divide(NotWholeError(found, 3, resumes=True))
    assert shape(found) == [[1], [2], [4]]


def test_the_only_loop_is_taken_apart_at_once() -> None:
    found = block("a = 1\nfor i in c:\n    x = i\nelse:\n    y = 2\nd = 3")
    found.divide(NotWholeError(found, 3, resumes=False))
    assert shape(found) == [[1], [2, 6]]
    (_, rest) = found.parts
    assert isinstance(rest, Block)
    assert shape(rest) == [[[], []], [6]]
    driven = rest.parts[0]
    assert isinstance(driven, Compound)
    assert is_driver(driven.driver)
    assert not is_driver(found.code)
    codes = list(found.codes())
    assert len(codes) == len(set(map(id, codes))) == 7


def test_a_failure_before_the_loop_leaves_the_loop_a_chance() -> None:
    found = block("a = 1\nb = 2\nfor i in c:\n    x = i")
    found.divide(NotWholeError(found, 2, resumes=False))
    assert shape(found) == [[1, 2], [3]]
    assert all(isinstance(part, Block) and not part.parts for part in found.parts)


def test_of_several_loops_each_is_tried() -> None:
    found = block("for i in c:\n    x = i\nfor j in c:\n    y = j\nz = 3")
    found.divide(NotWholeError(found, None, resumes=False))
    assert shape(found) == [[1], [3, 5]]


@pytest.mark.parametrize(
    "text",
    [
        "for i in range(5):\n    if i == 1: continue\n    if i == 3: break\n    log(i)\nelse: log('else')",
        "for i in range(2):\n    log(i)\nelse:\n    log('else')\nlog('end')",
        "for i in range(3):\n    for j in range(3):\n        if j == i: break\n        log((i, j))\n    else:\n        log('none')\n        continue\n    log('next')",
        "for i in range(3):\n    for j in range(1):\n        pass\n    else:\n        if i: break\n    log(i)",
        "n = 3\nwhile n:\n    n -= 1\n    if n == 1: continue\n    log(n)\nelse:\n    log('done')",
        "for i in range(2):\n    if i:\n        for j in range(2):\n            log((i, j))\n    else:\n        for k in range(2):\n            if k: continue\n            log(k)\nlog(i)",
        "for i in range(3):\n    try:\n        if i == 1: continue\n        log(i)\n    finally:\n        log('f')",
        "for i in range(2):\n    f = lambda: i\n    log([i for _ in range(2)])\n    log(f())",
    ],
)
def test_parts_do_what_the_whole_does(text: str) -> None:
    plain: list[Any] = []
    names: dict[str, Any] = {"log": plain.append}
    exec(text, names)
    divided = block(text)
    divide_all(divided)
    assert divided.parts
    found: list[Any] = []
    ours: dict[str, Any] = {"log": found.append}
    assert run(divided, ours) is None
    assert found == plain
    assert plain
    assert {k for k in ours if k != "__builtins__"} == {k for k in names if k != "__builtins__"}


def test_only_loops_ifs_and_withs_are_compounds() -> None:
    (node,) = ast.parse("try:\n    x = 1\nfinally:\n    y = 2").body
    with pytest.raises(TypeError):
        compound(node, Origin(frozenset(), "<cell>", compile))  # type: ignore[arg-type]


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
