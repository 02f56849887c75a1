"""The quickstart, executed from start to end in a kernel of its own, and what it must show."""

from __future__ import annotations

import re

import pytest

from tests.notebooks.executed import NOTEBOOKS, script


@pytest.fixture(scope="module")
def quickstart():
    """The executed notebook, its live widgets still in place."""
    return script().execute(NOTEBOOKS / "quickstart.ipynb")


@pytest.fixture(scope="module")
def cell(quickstart):
    by_id = {each.id: each for each in quickstart.cells}
    return by_id.__getitem__


def test_the_backends_are_listed(cell):
    text = script().text_of(cell("backends"))
    assert all(name in text for name in ("eager", "inductor", "onnxrt"))


def test_similar_sentences_are_the_similar_ones(cell):
    numbers = [
        [float(value) for value in re.findall(r"-?\d\.\d\d", line)]
        for line in script().text_of(cell("similarity")).splitlines()
    ]
    assert [len(row) for row in numbers] == [4, 4, 4, 4]
    assert all(numbers[i][i] == 1 for i in range(4))
    compilers, birds = numbers[0][1], numbers[2][3]
    assert min(compilers, birds) > 0.3
    strangers = [numbers[i][j] for i in (0, 1) for j in (2, 3)]
    assert max(strangers) < 0.1


def test_onnxruntime_agrees_with_eager(cell):
    worst = float(script().text_of(cell("check")).rpartition(" ")[2])
    assert worst < 1e-5


@pytest.mark.parametrize("name", ["embed", "run-again", "run-new", "toy-run"])
def test_a_dynamo_cell_shows_static_html_text_and_a_widget(cell, name):
    data = [output.data for output in cell(name).outputs if "data" in output]
    reports = [each for each in data if "dx-static" in each.get("text/html", "")]
    assert len(reports) == 1
    assert reports[0]["text/plain"].strip()
    assert sum(script().WIDGET_VIEW in each for each in data) == 1
    assert not any(output.output_type == "error" for output in cell(name).outputs)


def summary_rows(cell):
    """The table of the last cell: a row a report, by column name."""
    head, *lines = script().text_of(cell("summary")).split("\n\n")[0].splitlines()
    columns = head.split()[1:]
    rows = {}
    for line in lines:
        name, mode, rest = re.fullmatch(r"(.+?) +(optimize|run) +(.*) s", line).groups()
        rows[name] = dict(zip(columns, [mode, *map(float, rest.split())], strict=True))
    return rows


def test_the_embedding_is_one_graph_in_onnxruntime(cell):
    row = summary_rows(cell)["embedding"]
    assert row["mode"] == "optimize"
    assert (row["graphs"], row["breaks"], row["recompiles"]) == (1, 0, 0)
    assert row["compiled"] > 0
    share = re.search(
        r"(\d+) of the embedding's (\d+) operations", script().text_of(cell("summary"))
    )
    in_engine, total = map(int, share.groups())
    # What stays in eager is the little around attention masks; six layers do not.
    assert total > 200
    assert in_engine / total > 0.95


def test_run_reuses_what_is_there_and_compiles_nothing(cell):
    again, new = (summary_rows(cell)[name] for name in ("again", "new batch"))
    assert (again["graphs"], again["recompiles"], again["compiled"]) == (1, 0, 0)
    assert new["compiled"] == 0
    assert new["recompiles"] >= 1
    text = script().text_of(cell("run-new"))
    assert "expected" in text
    assert script().text_of(cell("shape")) == "(6, 6)"


def test_the_toy_breaks_at_the_branch(cell):
    row = summary_rows(cell)["toy"]
    assert row["graphs"] >= 3
    assert row["breaks"] >= 1
    assert "if b.sum() < 0" in " ".join(script().text_of(cell("toy-run")).split())


def test_a_compiler_function_of_the_users_own_saw_the_graph(cell):
    assert "matmul" in script().text_of(cell("own-seen"))
    assert "softmax" in script().text_of(cell("own-seen"))


def test_what_is_written_is_static(quickstart, tmp_path):
    notebook = script().make_static(script().nbformat.from_dict(quickstart))
    assert script().problems_of(notebook) == []
    page = tmp_path / "quickstart.html"
    script().write_html(notebook, page)
    html = page.read_text(encoding="utf-8")
    assert "dx-static" in html
    assert script().WIDGET_VIEW not in html


@pytest.mark.parametrize("path", sorted(NOTEBOOKS.glob("*.ipynb")), ids=lambda path: path.name)
def test_stored_notebooks_are_executed_and_static(path):
    notebook = script().nbformat.read(path, as_version=4)
    script().nbformat.validate(notebook)
    assert script().problems_of(notebook) == []
    assert all(each.execution_count for each in notebook.cells if each.cell_type == "code")
