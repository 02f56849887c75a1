from __future__ import annotations

import dataclasses

from dynamo_ext.records.common import CodeBlock
from dynamo_ext.widgets.runs import side_by_side


def cell(backend, body):
    return CodeBlock("cell", "ipy.py", 1, f"# %%dynamo -b {backend}\n{body}")


def test_both_forms_say_the_same(reports, page):
    view = side_by_side(reports["mixed"], reports["clean"])
    read, text = page(view._repr_html_()).text, repr(view)
    for words in ("Before", "After", "Breaks", "Fallbacks", "−", "onnxrt has no stable sort"):
        assert words in read
        assert words in text


def test_nothing_changed_is_said(reports, page):
    view = side_by_side(reports["clean"], reports["clean"])
    assert "are the same" in page(view.html()).text
    assert "are the same" in view.text()


def test_other_backends_are_told_apart(reports):
    other = dataclasses.replace(reports["clean"], backend="tvm")
    view = side_by_side(reports["clean"], other)
    assert "The backends differ" in view.text()
    assert "The backends differ" in view.html()


def test_runs_of_different_code_are_named_as_such(reports, page):
    first = dataclasses.replace(reports["clean"], title="Cell In[1]", cell=cell("b", "y = x"))
    other = dataclasses.replace(first, title="Cell In[7]", cell=cell("b", "y = x + 1"))
    for shown in (repr(found := side_by_side(first, other)), page(found.html()).text):
        assert "Cell In[7]" in shown
        assert "The cells' texts differ" in shown
        assert "%dynamo diff 5 7" in shown


def test_the_magics_over_a_cell_are_not_its_code(reports):
    first = dataclasses.replace(reports["clean"], cell=cell("onnxrt", "y = x"))
    again = dataclasses.replace(first, cell=cell("tvm", "y = x\n"))
    assert "texts" not in repr(side_by_side(first, again))


def test_names_of_users_are_escaped(reports, rude, page):
    view = side_by_side(reports["clean"], reports["rude"])
    assert rude not in str(view.html())
    assert rude in page(view.html()).text


def test_what_came_as_often_as_the_figures_say_is_counted_so(reports, page):
    mixed = reports["mixed"]
    twice = dataclasses.replace(mixed, graphs=mixed.graphs * 2)
    read = page(side_by_side(mixed, twice).html()).text
    assert f"Graphs {len(mixed.graphs)} {len(twice.graphs)} +{len(mixed.graphs)}" in read
    assert f"Graphs: 0 gone, {len(mixed.graphs)} new" in read
