"""The comparison notebook, executed, and what it must show whatever the machine's speed."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import texts


@pytest.fixture(scope="module")
def cell():
    return texts("comparing_backends")


def test_every_candidate_of_the_first_cell_is_judged(cell):
    text = cell("first")
    for name in ("eager", "inductor", "onnxrt", "openvino", "ofi"):
        assert name in text
    assert "wrong" not in cell("summary").split("half")[0]


def test_the_cells_leave_nothing_behind(cell):
    assert cell("harmless") == "[]"
    assert "weights are torch.float32" in cell("half-distance")


def test_half_precision_is_compared_at_that_precision(cell):
    assert "eager bfloat16" in cell("half-distance")
    assert "eager float32" in cell("half-distance")


def test_two_graphs_have_a_choice_each(cell):
    assert re.search(r"choice: \{'g0': '\w+', 'g1': '\w+'\}", cell("mix"))


def test_a_crash_is_a_row_and_a_wrong_backend_is_called_that(cell):
    assert re.search(r"trouble: \d+ rounds; careless wrong, crashes failed", cell("summary"))
    assert "exited by itself" in cell("isolated")
