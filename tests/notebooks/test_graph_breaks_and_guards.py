"""The notebook on breaks and guards, executed, and what each of its steps must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import texts


@pytest.fixture(scope="module")
def cell():
    return texts("graph_breaks_and_guards")


def test_every_line_that_splits_the_graph_is_advised_about(cell):
    shown = cell("first")
    for words in ("because it prints", "if lengths.min().item() == 0", "NumPy", "its `if` asks"):
        assert words in shown


def test_what_was_mended_is_gone(cell):
    assert "because it prints" not in cell("second")
    assert re.search(r"− `?if lengths\.min\(\)\.item\(\) == 0", cell("second-diff"))


def test_one_graph_and_the_same_scores(cell):
    assert "1 graph of" in cell("third")
    assert float(re.search(r"difference: (\S+)", cell("right"))[1]) < 1e-6


def test_floats_compile_anew_and_tensors_do_not(cell):
    assert "3 recompiles came from the float" in cell("thresholds-advice")
    assert cell("tensors") == "compiled 1 graph for 4 thresholds"
    assert cell("sizes") == "compiled 1 graph for 4 sizes"


def test_the_summary(cell):
    rows = re.findall(r"(\w+) (\d+) (\d+) (\d+) ", cell("summary"))
    graphs = {name: int(count) for name, count, *_ in rows}
    breaks = {name: int(count) for name, _, count, _ in rows}
    assert graphs["found"] > graphs["checked"] > graphs["whole"] == 1
    assert breaks["whole"] == 0
