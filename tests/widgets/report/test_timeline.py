"""When each function was captured, lowered and run."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.capture import Frame
from dynamo_ext.records.graph import Graph
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.report import timeline, timing

FRAME = Frame("0/0", "f", "x.py", 1, "compiled", ("g0",), compile_started=1.0, compile_seconds=4.0)
GRAPH = Graph(
    "g0", "0/0", "ts", (), "", 2.0, True, 9, 3.0,
    compile_started=2.0, first_call_started=5.0, first_call_seconds=1.0, last_call_ended=8.0,
)  # fmt: skip


def report(frame: Frame = FRAME, graph: Graph = GRAPH) -> Report:
    return Report("optimize", "ts", "Cell", None, 10.0, 4.0, frames=(frame,), graphs=(graph,))


@pytest.mark.parametrize(
    ("made", "signs"),
    [
        (report(), "·▒██▒▓░░··"),
        (report(graph=dataclasses.replace(GRAPH, calls=0)), "·▒██▒·····"),
        (report(graph=dataclasses.replace(GRAPH, compiled_now=False)), "·▒▒▒▒▓░░··"),
        (report(dataclasses.replace(FRAME, compile_seconds=0.0)), "··██·▓░░··"),
        (dataclasses.replace(report(), seconds=0.0), "··········"),
    ],
)
def test_a_sign_for_each_slot(made: Report, signs: str) -> None:
    assert timeline.track(made, made.frames[0], made.seconds / 10, 10).striptags() == signs


def test_what_passes_between_the_calls_of_a_session_counts() -> None:
    made = dataclasses.replace(report(), seconds=5.0)
    assert timeline.length(made) == 8.0
    assert "▒" in timing.text(made)
    assert timeline.length(dataclasses.replace(made, frames=(), graphs=())) == 5.0


def test_the_longest_of_a_slot_is_shown() -> None:
    made = report()
    assert timeline.track(made, FRAME, 2.5, 4).striptags() == "▒█░░"


def test_the_legend_goes_with_the_tracks() -> None:
    assert timeline.LEGEND in timing.text(report()).replace("\n", " ")
    assert timeline.LEGEND not in timing.text(dataclasses.replace(report(), frames=()))
