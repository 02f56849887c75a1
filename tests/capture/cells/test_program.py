"""A cell's text as segments: what is traced, what stays module code, and how code looks."""

from __future__ import annotations

import ast
import codeop
import inspect
import types
from typing import Any

import pytest

from dynamo_ext.capture.cells.program import CellProgram, build_program


def program(text: str, **kwargs: Any) -> CellProgram:
    # Not `compile`, which would hand on this module's own __future__ import.
    return build_program(text, "<cell>", codeop.Compile(), **kwargs)  # type: ignore[arg-type]


def shape(text: str, **kwargs: Any) -> list[tuple[bool, int, int]]:
    """Traced or not, and the lines, of each segment."""
    found = []
    for segment in program(text, **kwargs).segments:
        nodes = [statement.tree.body[0] for statement in segment.plain]  # type: ignore[attr-defined]
        lines = min(n.lineno for n in nodes), max(n.end_lineno for n in nodes)
        found.append((segment.block is not None, *lines))
    return found


def run(text: str, namespace: dict[str, Any], *, traced: bool, **kwargs: Any) -> list[Any]:
    """Run a program either way; the values that its traced segments would show."""
    shown = []
    for segment in program(text, **kwargs).segments:
        assert segment.block is not None or not segment.displays
        if traced and segment.block is not None:
            value = types.FunctionType(segment.block.code, namespace)()
            if segment.displays:
                shown.append(value)
        else:
            for statement in segment.plain:
                assert statement.code is not None
                exec(statement.code, namespace)
    return shown


def test_ordinary_statements_are_one_segment() -> None:
    text = "y = x + 1\nfor i in range(3):\n    y = y * 2\nz = [y for _ in range(2)]\nw = sum(z)"
    assert shape(text) == [(True, 1, 5)]


@pytest.mark.parametrize(
    "statement",
    [
        "def f(): return x",
        "async def f(): return x",
        "class C: pass",
        "import os",
        "from os import path",
        "from os.path import *",
        "global x",
        "del x",
        "n = locals()",
        "n = vars()",
        "n = dir()",
        "exec('n = 1')",
        "n = eval('x')",
        "n = globals()",
        "breakpoint",
        "fast = torch.compile(f)",
        "n = type('C', (), {})",
        "if x:\n    import os",
        "if x:\n    class C: pass",
        "'a docstring'",
    ],
)
def test_what_a_function_would_change_stays_module_code(statement: str) -> None:
    text = f"y = x + 1\n{statement}\nz = y + 1"
    last = 3 + statement.count("\n")
    assert shape(text) == [(True, 1, 1), (False, 2, last - 1), (True, last, last)]


def test_type_of_one_argument_is_traced() -> None:
    assert shape("n = type(x)") == [(True, 1, 1)]


def test_annotated_assignment_is_traced_and_annotated() -> None:
    text = "a: int = x + 1\nb: float"
    namespace: dict[str, Any] = {"x": 1}
    assert any(traced for traced, *_ in shape(text))
    run(text, namespace, traced=True)
    assert namespace["a"] == 2
    assert namespace["__annotations__"] == {"a": int, "b": float}


def test_only_the_last_expression_is_shown() -> None:
    segments = program("x\ny = 1\nx + y").segments
    assert [s.displays for s in segments] == [True]
    assert run("x\ny = 1\nx + y", {"x": 2}, traced=True) == [3]


@pytest.mark.parametrize(
    ("interactivity", "text", "shown"),
    [
        ("all", "x\ny = 1\ny", [1, 1]),
        ("none", "x\ny", []),
        ("last_expr", "x\ny = 1", []),
        ("last_expr_or_assign", "x\ny = 1", [1]),
        ("last_expr_or_assign", "y = 1\ny += 1", [2]),
        ("last_expr_or_assign", "y = z = 1", []),
    ],
)
def test_interactivity_is_ipythons(interactivity: str, text: str, shown: list[int]) -> None:
    assert run(text, {"x": 1, "y": 2}, traced=True, interactivity=interactivity) == shown


@pytest.mark.parametrize("traced", [False, True])
def test_names_land_in_the_namespace(traced: bool) -> None:
    namespace: dict[str, Any] = {"x": [3, 4]}
    text = (
        "a = x[0]\nb, (c, *d) = 1, (2, 3, 4)\nfor i in x: last = i\n"
        "n = [k := j for j in x]\nwith open('/dev/null') as f: pass\n"
        "try:\n    1 / 0\nexcept ZeroDivisionError as e: said = str(e)\n"
        "match x:\n    case [first, *rest]: pass\na += 1"
    )
    run(text, namespace, traced=traced)
    wanted = {"a": 4, "b": 1, "c": 2, "d": [3, 4], "last": 4, "k": 4, "first": 3, "rest": [4]}
    assert {name: namespace[name] for name in wanted} == wanted
    assert "e" not in namespace
    assert "j" not in namespace


def test_names_before_an_error_stay() -> None:
    namespace: dict[str, Any] = {}
    with pytest.raises(ZeroDivisionError):
        run("a = 1\nb = a / 0\nc = 2", namespace, traced=True)
    assert namespace["a"] == 1
    assert "c" not in namespace


def test_traced_code_reads_as_module_code() -> None:
    text = "\n\nf = lambda: (lambda: 1)\ng = (i for i in x)"
    codes = program(text).codes
    assert len(codes) == 1
    code = codes[0]
    plain = compile(text, "<cell>", "exec")
    assert (code.co_name, code.co_qualname) == ("<module>", "<module>")
    assert code.co_firstlineno == 1

    def inner(outer: types.CodeType) -> list[tuple[str, str, int, int]]:
        found = []
        for const in outer.co_consts:
            if isinstance(const, types.CodeType):
                flags = const.co_flags & inspect.CO_NESTED
                found += [(const.co_name, const.co_qualname, const.co_firstlineno, flags)]
                found += inner(const)
        return found

    assert inner(code) == inner(plain)


def test_a_functions_looks_are_those_of_module_code() -> None:
    text = "f = lambda: (lambda: 1)\ng = f()"
    both = []
    for traced in (False, True):
        namespace: dict[str, Any] = {"__name__": "__main__"}
        run(text, namespace, traced=traced)
        found = [namespace["f"], namespace["g"]]
        looks = [(h.__qualname__, h.__module__, h.__code__.co_flags) for h in found]
        both.append(looks)
    assert both[0] == both[1]


def test_line_numbers_are_the_texts() -> None:
    text = "# one\n# two\ny = (\n    x +\n    missing\n)"
    with pytest.raises(NameError) as caught:
        run(text, {"x": 1}, traced=True)
    traceback = caught.value.__traceback__
    while traceback is not None and traceback.tb_next is not None:
        traceback = traceback.tb_next
    assert traceback is not None
    assert traceback.tb_lineno == 5
    assert traceback.tb_frame.f_code.co_name == "<module>"


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment"])
def test_a_cell_without_code_has_nothing_to_run(text: str) -> None:
    assert program(text).segments == ()


@pytest.mark.parametrize("statement", ["return 1", "yield 1", "break", "nonlocal x"])
def test_what_python_refuses_late_waits_for_its_turn(statement: str) -> None:
    found = program(f"a = 1\n{statement}")
    assert [s.block is not None for s in found.segments] == [True, False]
    assert found.segments[1].plain[0].code is None


def test_a_transformer_sees_the_whole_tree() -> None:
    class Fractions(ast.NodeTransformer):
        def visit_Constant(self, node: ast.Constant) -> ast.AST:
            return ast.copy_location(ast.Constant(7), node)

    found = program("y = 1", transform=lambda tree: Fractions().visit(tree))
    namespace: dict[str, Any] = {}
    types.FunctionType(found.codes[0], namespace)()
    assert namespace["y"] == 7
