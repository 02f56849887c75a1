"""Loops around a line, read off the source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from dynamo_ext.capture.code.syntax import leaves, loop_around

if TYPE_CHECKING:
    from pathlib import Path

SOURCE = """def f(x):
    for i in range(3):
        if x > i:
            break
        if x < i:
            x = x * 2
        while x > 0:
            x = x - 1
        def inner(y):
            if y:
                return y
            return 2
    if x:
        return 1
    return x
"""


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = tmp_path / "looped.py"
    path.write_text(SOURCE)
    return str(path)


def test_the_outermost_loop_of_the_lines_own_function(file: str) -> None:
    found = {line for line in range(1, 16) if loop_around(file, line) is not None}
    assert found == {2, 3, 4, 5, 6, 7, 8}
    inner = loop_around(file, 8)
    assert inner is not None
    assert inner.lineno == 2


def test_what_decides_whether_a_loop_goes_on(file: str) -> None:
    around = {line: loop_around(file, line) for line in range(1, 16)}
    assert {line for line, loop in around.items() if loop and leaves(loop, line)} == {3, 7}


def test_what_is_no_python_has_no_loop(tmp_path: Path) -> None:
    path = tmp_path / "no.py"
    path.write_text("for x in")
    assert loop_around(str(path), 1) is None
    assert loop_around(str(tmp_path / "gone.py"), 1) is None
