from __future__ import annotations

import dataclasses
import re

from dynamo_ext.widgets.report import summary
from dynamo_ext.widgets.runs import history


def test_each_run_has_a_row_with_its_outcome(reports, page):
    view = history([reports["mixed"], reports["clean"], reports["unavailable"]])
    read, text = page(view._repr_html_()).text, repr(view)
    for words in ("optimize onnxrt", "◐ partly eager", "✓ compiled", "✗ backend unavailable"):
        assert words in read
        assert set(words.split()) <= set(text.split())
    assert text.count("optimize onnxrt") == 2


def test_a_row_has_the_counts_that_the_runs_summary_has(reports):
    run = dataclasses.replace(reports["mixed"], seconds=2.0, profile_seconds=0.9)
    shown = dict(summary.counts(run))
    headers, _, row = (re.split(r"\s{2,}", line) for line in repr(history([run])).split("\n"))
    assert headers[3:] == ["Graphs", "Breaks", "Recompiles", "Fallbacks", "Compile", "Run"]
    assert row[3:] == [shown[name] for name in headers[3:]]
    assert row[-1] == "70.0 ms"


def test_what_no_later_run_has_is_not_called_running(reports):
    raced = dataclasses.replace(
        reports["clean"], seconds=9.0, compile_seconds=2.0, race_seconds=4.0
    )
    assert "3.00 s" in repr(history([raced]))


def test_no_run_yet():
    assert "No %%dynamo cell has run yet." in repr(history([]))
    assert "No %%dynamo cell has run yet." in history([]).html()


def test_names_of_users_are_escaped(reports, rude):
    assert rude not in str(history([reports["rude"]]).html())
