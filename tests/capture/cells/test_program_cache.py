"""The same text finds the same program; an edited cell lets go of its former one."""

from __future__ import annotations

import pytest

from dynamo_ext.capture.cells.program import CellProgram, build_program
from dynamo_ext.capture.cells.program_cache import ProgramCache


def build(text: str) -> CellProgram:
    return build_program(text, "<cell>", compile)  # type: ignore[arg-type]


def find(cache: ProgramCache, text: str, cell_id: str | None = None) -> object:
    return cache.find(text, cell_id, lambda: build(text))


def test_the_same_text_is_built_once() -> None:
    cache = ProgramCache()
    built: list[str] = []

    def make() -> CellProgram:
        built.append("x = 1")
        return build("x = 1")

    assert cache.find("x = 1", "a", make) is cache.find("x = 1", "b", make)
    assert built == ["x = 1"]


def test_without_cell_ids_only_the_oldest_go() -> None:
    cache = ProgramCache(most=2)
    first = find(cache, "x = 1")
    second = find(cache, "x = 2")
    assert find(cache, "x = 1") is first
    find(cache, "x = 3")
    assert len(cache) == 2
    assert find(cache, "x = 1") is first
    assert find(cache, "x = 2") is not second


def test_a_failed_build_leaves_the_cells_program() -> None:
    cache = ProgramCache()
    first = find(cache, "x = 1", "a")
    with pytest.raises(SyntaxError):
        find(cache, "x = = 1", "a")
    assert find(cache, "x = 1", "a") is first
