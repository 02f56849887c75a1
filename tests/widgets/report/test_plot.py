"""A report as a plot: its bars are the parts of the run, on the axes that were asked for."""

from __future__ import annotations

import matplotlib as mpl
import pytest
from matplotlib import pyplot as plt
from matplotlib.figure import Figure

from dynamo_ext.errors import OptionError
from dynamo_ext.records.report import Report

REPORT = Report("optimize", "onnxrt", "Cell In[3]", None, 4.0, 1.5, race_seconds=0.5)


@pytest.fixture(autouse=True)
def _no_window():
    before = mpl.get_backend()
    mpl.use("agg")
    yield
    plt.close("all")
    mpl.use(before)


def test_it_has_a_bar_for_each_part():
    axes = REPORT.plot()
    assert [label.get_text() for label in axes.get_yticklabels()] == [
        "Compiling",
        "Racing backends",
        "Running graphs",
        "Python and uncaptured code",
    ]
    assert [bar.get_width() for bar in axes.patches] == [1.5, 0.5, 0.0, 2.0]
    assert axes.get_xlabel() == "Seconds of Cell In[3] on onnxrt"
    assert axes.figure.number in plt.get_fignums()


def test_it_is_drawn_where_the_user_says():
    axes = Figure().add_subplot()
    assert REPORT.plot(axes) is axes
    assert not plt.get_fignums()


def test_without_matplotlib_a_sentence_says_so(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(OptionError, match="needs matplotlib"):
        REPORT.plot()
