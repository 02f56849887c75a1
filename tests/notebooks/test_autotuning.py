"""The notebook on races, executed, and what it must show whoever wins."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.test_quickstart import NOTEBOOKS, execute


@pytest.fixture(scope="module")
def cell():
    notebook = execute.execute(NOTEBOOKS / "autotuning.ipynb")
    assert execute.problems_of(execute.make_static(notebook)) == []
    by_id = {each.id: each for each in notebook.cells}
    return lambda name: " ".join(execute.text_of(by_id[name]).split())


def test_every_candidate_raced_for_each_graph(cell):
    shown = cell("contests")
    assert len(re.findall(r"g\d: \w+ won", shown)) == 2
    for name in ("eager", "inductor", "onnxrt", "openvino", "ts"):
        assert len(re.findall(rf"\b{name} (?:won|slower|same|eager|wrong|failed)", shown)) == 2
    assert not re.search(r"\b(?:wrong|failed)\b", shown)


def test_the_second_time_it_is_known(cell):
    assert cell("summary").startswith("first 2 graphs, 0 races remembered")
    assert re.search(r"again 2 graphs, [12] races remembered", cell("summary"))
    assert "remembered in" in cell("cache")


def test_the_result_is_eagers(cell):
    assert float(re.search(r"eager: (\S+)", cell("right"))[1]) < 1e-4
