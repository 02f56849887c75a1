from __future__ import annotations

import dataclasses

from dynamo_ext.difference import difference
from dynamo_ext.widgets.difference import DifferenceView


def test_both_forms_say_the_same(reports, page):
    view = DifferenceView(difference(reports["mixed"], reports["clean"]))
    read, text = page(view._repr_html_()).text, repr(view)
    for words in ("Before", "After", "Breaks", "Fallbacks", "−", "onnxrt has no stable sort"):
        assert words in read
        assert words in text


def test_nothing_changed_is_said(reports, page):
    view = DifferenceView(difference(reports["clean"], reports["clean"]))
    assert "are the same" in page(view.html()).text
    assert "are the same" in view.text()


def test_other_backends_are_told_apart(reports):
    other = dataclasses.replace(reports["clean"], backend="tvm")
    view = DifferenceView(difference(reports["clean"], other))
    assert "The backends differ" in view.text()
    assert "The backends differ" in view.html()


def test_names_of_users_are_escaped(reports, rude, page):
    view = DifferenceView(difference(reports["clean"], reports["rude"]))
    assert rude not in str(view.html())
    assert rude in page(view.html()).text
