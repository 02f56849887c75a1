from __future__ import annotations

from dynamo_ext.widgets.history import History


def test_each_run_has_a_row_with_its_outcome(reports, page):
    view = History([reports["mixed"], reports["clean"], reports["unavailable"]])
    read, text = page(view._repr_html_()).text, repr(view)
    for words in ("optimize onnxrt", "◐ partly eager", "✓ compiled", "✗ backend unavailable"):
        assert words in read
        assert words in text
    assert text.count("\n") == 4


def test_no_run_yet():
    assert "No %%dynamo cell has run yet." in repr(History([]))
    assert "No %%dynamo cell has run yet." in History([]).html()


def test_names_of_users_are_escaped(reports, rude):
    assert rude not in str(History([reports["rude"]]).html())
