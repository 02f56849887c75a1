"""What advice on capture rests on, from records made by hand."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.analysis.advice import advise
from dynamo_ext.records.capture import GraphBreak
from dynamo_ext.records.common import SourceLine
from dynamo_ext.records.graph import Graph, Operation
from dynamo_ext.records.report import Report

LINE = SourceLine("cell", 3, "<module>", "print(x)", in_cell=True)
CUT = GraphBreak("gb0296", "print", "", (), "", LINE, (LINE,))


def report(run: float, **more: bool) -> Report:
    """Ten seconds, nine of them compiling; its graphs ran for ``run``."""
    lines = [dataclasses.replace(LINE, line=number) for number in (2, 4)]
    operations = [
        Operation("call_function", "add", "operator.add", "", "", line=each) for each in lines
    ]
    made = Graph("g0", "0/0", "ts", tuple(operations), "", 9.0, True, 1, run, ended_by=0, **more)
    return Report("optimize", "ts", "Cell", None, 10.0, 9.0, graphs=(made,), breaks=(CUT,))


@pytest.mark.parametrize(
    ("run", "said"),
    [
        (0.25, "1 graph in this run; code outside of graphs took 750 ms of the 1.00 s without "),
        (0.95, "1 graph in this run"),
    ],
)
def test_a_break_has_the_seconds_outside_of_graphs_where_they_are_many(run, said):
    found = next(each for each in advise(report(run)) if each.topic == "break")
    assert found.evidence.startswith(said)
    assert ("outside" in found.evidence) == ("outside" in said)
    assert found.seconds == 0.0, "no cause has them for its own"


def test_backward_passes_that_run_outside_are_no_cost_of_breaks():
    found = next(e for e in advise(report(0.25, backward_untimed=True)) if e.topic == "break")
    assert found.evidence == "1 graph in this run"
