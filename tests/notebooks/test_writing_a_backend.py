"""The notebook on backends, executed in a kernel of its own, and what it must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import NOTEBOOKS, texts


@pytest.fixture(scope="module")
def text():
    return texts("writing_a_backend")


@pytest.fixture(scope="module")
def source():
    import nbformat

    notebook = nbformat.read(NOTEBOOKS / "writing_a_backend.ipynb", as_version=4)
    return {cell.id: cell.source for cell in notebook.cells}


def difference(shown: str) -> float:
    return float(re.search(r"largest difference .*?: (\S+?)(;|\s|$)", shown).group(1))


def test_a_backend_takes_about_twenty_lines(source):
    body = source["backend"].partition("class NumPyBackend")[2]
    assert len([line for line in body.splitlines() if line.strip()]) <= 25


@pytest.mark.parametrize(
    "cell", ["first-check", "freeze-check", "wrong-check", "raise-run", "training"]
)
def test_results_are_eagers(text, cell):
    assert difference(text(cell)) < 1e-5


def test_the_graph_is_cut_around_what_the_engine_lacks(text):
    shown = text("first-check")
    assert shown.count("numpy") == 2
    assert "The toy has no kernel for it." in shown
    assert "partly eager" in text("first-run")


def test_a_changed_weight_compiles_nothing_anew(text):
    assert text("freeze-check").endswith("graphs compiled: 0")


def test_it_has_a_name(text):
    assert "numpy ✓ yes" in text("described")
    assert text("whole-check") == "9 of 9 operations in 1 partition"


def test_a_wrong_kernel_is_caught(text):
    assert re.search(r"verify: Output 0: .* values are off", text("wrong-check"))


def test_an_exception_costs_one_call(text):
    assert "run: MemoryError: out of imaginary memory (calls: 1)" in text("raise-run")


def test_a_backend_may_say_no(text):
    assert "No time for training." in text("stay-run")


def test_training_runs_in_the_engine_too(text):
    shown = text("training")
    assert re.search(r"forward_0 numpy \d+", shown)
    assert re.search(r"backward_0 numpy \d+", shown)
    assert "aten.where.self" in text("missing")


def test_torch_compile_takes_it(text):
    assert text("compile") == "torch.compile agrees with eager: True"


def test_the_summary(text):
    rows = re.findall(r"(\w+) (\d+) (\d+) (none|[a-z]+)", text("summary").partition("fallbacks")[2])
    assert [(name, stage) for name, _, _, stage in rows] == [
        ("first", "unsupported"),
        ("whole", "none"),
        ("wrong", "verify"),
        ("raised", "run"),
        ("stayed", "unsupported"),
        ("trained", "unsupported"),
    ]
    assert {name: int(inside) for name, inside, *_ in rows}["wrong"] == 0
