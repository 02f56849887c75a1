"""What is asked of one report several times is computed once, and of another report again."""

import dataclasses

from dynamo_ext.analysis.remembered import remembered
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from tests.widgets.conftest import CLEAN


def test_one_report_is_asked_once_and_another_again() -> None:
    asked: list[str] = []

    @remembered
    def titled(report: Report, words: str = "") -> str:
        asked.append(words)
        return report.title + words

    other = dataclasses.replace(CLEAN, title="Cell In[99]")
    title = CLEAN.title
    assert [titled(CLEAN), titled(CLEAN), titled(CLEAN, "!")] == [title, title, f"{title}!"]
    assert asked == ["", "!"]
    assert [titled(other), titled(CLEAN)] == ["Cell In[99]", title]
    assert asked == ["", "!", "", ""]


def test_graphs_are_told_apart_though_they_do_not_outlive_the_call() -> None:
    @remembered
    def backend(_report: Report, graph: Graph) -> str:
        return graph.backend

    for name in map(str, range(100)):
        assert backend(CLEAN, dataclasses.replace(CLEAN.graphs[0], backend=name)) == name
