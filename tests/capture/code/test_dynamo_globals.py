"""Dynamo's names are in a namespace only while its code runs."""

from __future__ import annotations

import builtins
import gc
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from dynamo_ext.capture.code.dynamo_globals import HiddenNames
from tests.capture.live import live

if TYPE_CHECKING:
    from tests.capture.live import Live

CELL = "y = x + 1\nprint('a break')\nz = y * 2"


def dynamos(names: object) -> set[str]:
    found = ("__compiled_fn", "__resume_at", "__import_torch", "__builtins_dict")
    return {name for name in names if str(name).startswith(found)}  # type: ignore[attr-defined]


def test_nothing_is_left_in_the_namespace(cells: Live) -> None:
    before = set(cells.names)
    for _ in range(3):
        cells.report(CELL)
        added = {name for name in set(cells.names) - before if not name.startswith("_i")}
        assert added == {"y", "z"}


def test_nothing_is_left_after_an_error(cells: Live) -> None:
    cells.failed("y = x + 1\nprint('a break')\nz = y @ torch.ones(7, 7)")
    assert not dynamos(cells.names)


def test_the_cell_itself_sees_no_foreign_name_later(cells: Live) -> None:
    cells.report(CELL)
    cells.well("seen = [n for n in globals()] + dir()")
    assert not dynamos(cells.names["seen"])


def test_functions_of_the_notebook_work_without_the_magic(cells: Live) -> None:
    cells.well("def f(v):\n    w = v + 1\n    print('in f')\n    return w * 2")
    cells.report("y = f(x)")
    cells.well("z = f(x)")
    assert cells.names["z"].tolist() == cells.names["y"].tolist()
    cells.well("fast = torch.compile(f, backend='eager')\nw = fast(x)")
    assert cells.names["w"].tolist() == cells.names["y"].tolist()


def test_unloading_leaves_no_name_anywhere() -> None:
    before = dynamos(dir(builtins))
    with live("x = torch.ones(3)") as cells:
        cells.report(CELL)
        cells.well("%unload_ext dynamo_ext")
        assert not dynamos(cells.names)
        assert dynamos(dir(builtins)) == before


@pytest.mark.usefixtures("older_objects_frozen")
@pytest.mark.parametrize("text", ["y = x + 1", CELL])
def test_reset_lets_go_of_the_names(cells: Live, text: str) -> None:
    def waiting() -> set[str]:
        return {n for n in dynamos(dir(builtins)) if not n.startswith("__import")}

    before = waiting()
    cells.report(text)
    assert not dynamos(cells.names)
    cells.well("%dynamo reset")
    gc.collect()
    # What earlier tests have left may go, too.
    assert waiting() - before == set()


def test_another_namespace_is_not_watched() -> None:
    mine: dict[str, object] = {}
    other: dict[str, object] = {}
    with closing(HiddenNames(mine)) as names:
        with names.watching(other):
            other["__compiled_fn_1"] = 1
        with names.present():
            pass
        assert other == {"__compiled_fn_1": 1}
        assert mine == {}


def test_a_users_own_new_name_stays() -> None:
    mine: dict[str, object] = {}
    with closing(HiddenNames(mine)) as names:
        with names.present():
            mine["y"] = 1
        assert mine == {"y": 1}


def test_the_builtins_do_not_come_to_hold_themselves(cells: Live) -> None:
    """Torch walks through them without end, in a user's own ``torch.compile`` too."""
    cells.report(CELL)
    assert dynamos(dir(builtins))
    held = [value for value in vars(builtins).values() if value is vars(builtins)]
    assert not held
    cells.well("def each(v):\n    yield from (v, v)\ntotal = torch._dynamo.disable(sum)")
    cells.well("fast = torch.compile(lambda v: total(each(v)), backend='eager')\ny = fast(x)")
    assert cells.names["y"].tolist() == (2 * cells.names["x"]).tolist()
    cells.report(CELL)
    cells.well("%%dynamo run --quiet\n" + CELL)


def test_a_name_is_in_its_new_place_before_it_leaves_the_old_one() -> None:
    seen = []

    class Namespace(dict[str, object]):
        def __setitem__(self, name: str, value: object) -> None:
            seen.append(hasattr(builtins, name))
            super().__setitem__(name, value)

    with closing(HiddenNames(mine := Namespace())) as names:
        with names.present(), names.watching(mine):
            mine["__compiled_fn_1_of_this_test"] = 1
        with names.present():
            pass
        assert seen == [False, True]


def test_threads_find_the_names_while_cells_begin_and_end(cells: Live) -> None:
    """Compiled functions of the notebook run in two threads that outlive the cell."""
    cells.well(
        "import dynamo_ext, threading\ndef f(v):\n    y = v + 1\n    print(end='')\n    return y * 2"
    )
    cells.well("fast = dynamo_ext.optimize('eager')(f)\nfast(x)")
    cells.well(THREADS)
    for _ in range(30):
        cells.report(CELL)
    cells.well("ended.set()\nfor thread in threads:\n    thread.join()")
    assert cells.names["errors"] == []
    assert min(cells.names["calls"]) > 30


THREADS = """
ended, errors, calls = threading.Event(), [], [0, 0]
def work(number):
    while not ended.is_set():
        try:
            fast(x)
        except Exception as error:
            errors.append(error)
        calls[number] += 1
threads = [threading.Thread(target=work, args=(number,)) for number in range(2)]
for thread in threads:
    thread.start()
"""
