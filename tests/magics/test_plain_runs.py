"""Plain cells of the same text, with which a report compares."""

from __future__ import annotations

import pytest
from IPython.core.interactiveshell import InteractiveShell

from dynamo_ext.magics.plain_runs import PlainRuns

CELL = "import time\ntime.sleep(0.03)"


@pytest.fixture
def shell():
    made = InteractiveShell()
    yield made
    made.history_manager.end_session()


def test_cells_are_timed_by_their_text(shell):
    runs = PlainRuns(shell)
    for _ in range(2):
        shell.run_cell(f"{CELL}\n")
    assert len(runs.of_text(CELL)) == 2
    assert all(took >= 0.03 for took in runs.of_text(f"\n{CELL}"))
    assert runs.of_text("time.sleep(0)") == ()


def test_a_cell_that_raises_and_one_of_a_magic_are_left_out(shell):
    runs = PlainRuns(shell)
    shell.run_cell("1 / 0")
    shell.run_cell("%%capture\n1")
    assert runs.of_text("1 / 0") == runs.of_text("%%capture\n1") == ()


def test_a_cell_that_runs_another_one(shell):
    runs = PlainRuns(shell)
    shell.user_ns["shell"] = shell
    outer = f"shell.run_cell({CELL!r})"
    shell.run_cell(outer)
    assert len(runs.of_text(CELL)) == len(runs.of_text(outer)) == 1


def test_it_stops_with_the_extension(shell):
    runs = PlainRuns(shell)
    runs.close()
    shell.run_cell(CELL)
    assert runs.of_text(CELL) == ()
