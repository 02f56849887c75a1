"""The notebook on training, executed, and what it must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import texts


@pytest.fixture(scope="module")
def cell():
    return texts("training")


def test_the_usual_loop_prints_the_same_either_way(cell):
    assert "step 40:" in cell("usual")
    steps = re.compile(r"step +\d+: \d\.\d\d")
    assert steps.findall(cell("usual")) == steps.findall(cell("compiled"))[:3]


def test_the_loop_in_a_function_is_said_to_be_eager(cell):
    shown = cell("inside")
    assert "runs as plain Python" in shown
    assert "put the loop's body into a function" in shown


def test_forward_and_backward_are_in_the_engine(cell):
    shown = cell("partitions")
    assert "60 calls" in shown
    for part in ("forward", "backward"):
        assert re.search(rf"{part}\S* onnxrt \d+", shown)


def test_it_is_the_same_training(cell):
    assert float(re.search(r"60 steps: (\S+)", cell("same"))[1]) < 1e-4
    first, last = map(
        float, re.search(r"loss: (\S+) at first, (\S+) at last", cell("same")).groups()
    )
    assert last < 0.8 * first


def test_gradients_are_eagers(cell):
    found = [float(each) for each in re.findall(r"(?:weight|bias) (\S+)", cell("gradients"))]
    assert len(found) == 6
    assert max(found) < 1e-5


def test_comparing_leaves_the_weights(cell):
    assert cell("untouched") == "weights untouched: True"
    assert "wrong" not in cell("compare")
