"""The same text finds the same program; an edited cell lets go of its former one."""

from __future__ import annotations

import gc
import weakref

import pytest

from dynamo_ext.capture.cells.program import CellProgram, build_program
from dynamo_ext.capture.cells.program_cache import MOST_PROGRAMS, ProgramCache


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


def test_an_edited_cell_drops_its_former_text() -> None:
    cache = ProgramCache()
    first = find(cache, "x = 1", "a")
    find(cache, "x = 2", "a")
    assert len(cache) == 1
    assert find(cache, "x = 1", "a") is not first


def test_a_text_that_another_cell_has_stays() -> None:
    cache = ProgramCache()
    first = find(cache, "x = 1", "a")
    find(cache, "x = 1", "b")
    find(cache, "x = 2", "a")
    assert find(cache, "x = 1", "b") is first


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


@pytest.mark.usefixtures("older_objects_frozen")
def test_dropped_code_dies() -> None:
    cache = ProgramCache()
    find(cache, "x = 1", "a")
    code = weakref.ref(cache.find("x = 1", "a", lambda: build("x = 1")).program.codes[0])
    find(cache, "x = 2", "a")
    gc.collect()
    assert code() is None


def test_clear_drops_all() -> None:
    cache = ProgramCache()
    for number in range(5):
        find(cache, f"x = {number}", str(number))
    cache.clear()
    assert len(cache) == 0


def test_the_bound_is_generous() -> None:
    assert MOST_PROGRAMS >= 100
