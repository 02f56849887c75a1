"""The notebook on TVM, executed, and what it must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.test_quickstart import NOTEBOOKS, execute


@pytest.fixture(scope="module")
def cell():
    notebook = execute.execute(NOTEBOOKS / "tuning_tvm.ipynb")
    assert execute.problems_of(execute.make_static(notebook)) == []
    by_id = {each.id: each for each in notebook.cells}
    return lambda name: " ".join(execute.text_of(by_id[name]).split())


def test_each_way_is_right(cell):
    found = [float(each) for each in re.findall(r"eager: (\S+)", cell("right"))]
    assert len(found) == 3
    assert max(found) < 1e-4


def test_what_was_found_is_kept(cell):
    seconds = dict(re.findall(r"(\w+) \d+ of \d+ operations in TVM, (\S+) s", cell("summary")))
    assert set(seconds) == {"rule", "search", "kept"}
    assert float(seconds["kept"]) < float(seconds["search"])


def test_the_comparison_judges_both(cell):
    assert "tvm_meta_schedule" in cell("compare")
    assert "wrong" not in cell("compare")
