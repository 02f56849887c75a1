"""The notebook on TVM, executed, and what it must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import texts


@pytest.fixture(scope="module")
def cell():
    return texts("tuning_tvm")


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
