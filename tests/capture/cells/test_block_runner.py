"""Cells whose loops Dynamo cannot capture whole: each turn of them is captured."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from tests.capture.live import Live, live
from tests.corpus import divided

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dynamo_ext.records.report import Report

LOOP = "for r in rows:\n    y = (r * 2).sum()\n    print(float(y))"
TRAINING = f"print('start')\n{divided.TRAINING}"


@pytest.fixture
def loops() -> Iterator[Live]:
    with live(
        "x = torch.arange(4.)",
        "rows = list(torch.ones(6, 4))",
        "layers = torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1)",
        "model = torch.nn.Sequential(*layers)",
        "opt = torch.optim.SGD(model.parameters(), lr=0.01)",
        "sets = torch.utils.data.TensorDataset(torch.randn(24, 4), torch.randn(24, 1))",
        "loader = torch.utils.data.DataLoader(sets, batch_size=4)",
    ) as found:
        yield found


def own(report: Report) -> list[tuple[int, int]]:
    """Operations and calls of the cell's own graphs."""
    cell = {frame.id for frame in report.frames if frame.in_cell}
    return [(g.operation_count, g.calls) for g in report.graphs if g.frame in cell]


def test_each_turn_of_a_loop_that_prints_is_captured(loops: Live) -> None:
    report = loops.report(LOOP)
    assert own(report) == [(2, 6)]
    assert report.fallbacks == ()
    assert report.breaks
    assert {b.line.line for b in report.breaks if b.line} == {4}


def test_a_second_run_compiles_nothing_and_says_the_same(loops: Live, compiles: list[str]) -> None:
    first = loops.report(LOOP, cell_id="a")
    before = len(compiles)
    again = loops.report(LOOP, cell_id="a")
    assert len(compiles) == before
    assert own(again) == own(first)
    assert again.breaks == first.breaks
    assert again.compile_seconds == 0


def test_run_uses_what_was_compiled_for_a_turn(loops: Live) -> None:
    loops.report(LOOP, cell_id="a")
    ran = loops.well("%%dynamo run --quiet\n" + LOOP, "a")
    assert ran.out.split() == ["8.0"] * 6
    assert own(dynamo_ext.last_report()) == [(2, 6)]


def test_a_training_loop_is_captured_with_its_loss_and_its_optimizer(loops: Live) -> None:
    report = loops.report(TRAINING)
    assert own(report) == [(report.graphs[0].operation_count, 12)]
    assert report.fallbacks == ()
    assert report.recompiles == ()
    assert any(g.calls == 12 for g in report.graphs if g not in report.graphs[:1])


@pytest.mark.parametrize(
    ("begins", "grows", "value"),
    [("0.0", "kept += y.item()", 48.0), ("[]", "kept.append(y.item())", [8.0] * 6)],
)
def test_what_grows_with_each_turn_compiles_nothing_anew(
    loops: Live, compiles: list[str], begins: str, grows: str, value: Any
) -> None:
    text = f"kept = {begins}\nfor r in rows:\n    y = (r * 2).sum()\n    {grows}"
    report = loops.report(text)
    assert own(report) == [(2, 6)]
    assert (report.recompiles, report.fallbacks) == ((), ())
    assert loops.names["kept"] == value
    before = len(compiles)
    assert own(loops.report(text)) == [(2, 6)]
    assert len(compiles) == before


def test_a_list_of_results_compiles_the_turn_at_most_twice(loops: Live) -> None:
    text = "found = []\nfor a, b in loader:\n    y = model(a)\n    z = y * b\n    found.append(z)"
    report = loops.report(text, cell_id="a")
    assert sorted(own(report)) == [(4, 1), (4, 5)]
    assert report.fallbacks == ()
    assert len(loops.names["found"]) == 6
    assert own(loops.report(text, cell_id="a")) == [(4, 6)]


def test_a_result_put_into_a_list_at_once_is_captured(loops: Live) -> None:
    text = "found = []\nfor a, b in loader:\n    found.append(model(a))"
    for _ in range(2):
        report = loops.report(text, cell_id="a")
        assert report.fallbacks == ()
        assert sum(calls for _, calls in own(report)) == 6
    assert len(loops.names["found"]) == 6


def test_a_turn_that_changes_each_time_leaves_what_it_calls_compiled(loops: Live) -> None:
    loops.well("def f(v):\n    return (v * 3).sin()")
    text = (
        "for name in 'abcdefghijklmnop':\n"
        "    y = f(x) * len(name + '!')\n"
        "    z = y + ord(name)\n"
        "    print(float(z[0]))"
    )
    report = loops.report(text)
    assert [f.stage for f in report.fallbacks] == ["capture"]
    assert "recompile limit" in report.fallbacks[0].message
    assert report.fallbacks[0].cause == "recompile_limit"
    assert report.fallbacks[0].remedy.startswith("Keep a number that changes")
    names = {frame.id: frame.name for frame in report.frames}
    assert [g.calls for g in report.graphs if names[g.frame] == "f"] == [8]


def test_a_part_may_read_what_an_earlier_turn_has_bound(loops: Live) -> None:
    text = (
        "last = None\n"
        "for r in rows:\n"
        "    seen = 0 if last is None else (last * 2).sum()\n"
        "    print('-')\n"
        "    last = r * 3"
    )
    report = loops.report(text)
    assert {o.line.line for g in report.graphs for o in g.operations if o.line} >= {4, 6}


def test_the_condition_that_divides_a_while_is_told(loops: Live) -> None:
    text = "y = x\nwhile y.sum() < 100:\n    y = y * 2 + 1"
    for _ in range(2):
        report = loops.report(text, cell_id="a")
        assert [(b.reason, b.line.line) for b in report.breaks if b.line] == [
            ("Data-dependent branching", 3)
        ]
        assert own(report) == [(2, 4)]


def test_a_loop_that_can_be_captured_whole_stays_whole(loops: Live) -> None:
    report = loops.report("y = x\nfor k in range(3):\n    y = y * 2\nz = y + 1")
    assert own(report) == [(4, 1)]
    report = loops.report("y = x\nprint('a')\nfor k in range(3):\n    y = y * 2\nz = y + 1")
    assert own(report) == [(4, 1)]
    report = loops.report("y = x\nfor k in range(3):\n    y = y * 2\nprint('a')\nz = y + 1")
    assert own(report) == [(3, 1), (1, 1)]


def test_with_fullgraph_the_loop_is_refused_with_its_reason(loops: Live) -> None:
    ran = loops.run(f"%%dynamo -b eager --fullgraph --quiet\n{LOOP}", "a")
    assert ran.error is not None
    loops.report(LOOP, cell_id="a")
    ran = loops.run(f"%%dynamo -b eager --fullgraph --quiet\n{LOOP}", "a")
    assert ran.error is not None


def test_another_backend_goes_through_the_loop_from_the_start(loops: Live) -> None:
    loops.report(LOOP, cell_id="a")
    report = loops.report(LOOP, "-b aot_eager", cell_id="a")
    assert own(report) == [(2, 6)]
    assert {g.backend for g in report.graphs} == {"aot_eager"}


def test_a_loop_is_compared_turn_by_turn(loops: Live) -> None:
    text = "s = 0\nfor r in rows:\n    y = (r * 2).sum()\n    s = s + float(y)"
    loops.well(f"%%dynamo compare -b ts -n 6 --quiet -o found\n{text}")
    assert "s" not in loops.names
    row = loops.names["found"]["ts"]
    assert row.report is not None
    assert [(g.operation_count, g.backend) for g in row.report.graphs] == [(2, "ts")]
    assert row.report.fallbacks == ()


def test_no_name_of_ours_is_left_in_the_namespace(loops: Live) -> None:
    before = set(loops.names)
    loops.report(LOOP)
    assert set(loops.names) - before <= {"r", "y"} | {n for n in loops.names if n.startswith("_i")}


def test_breaks_after_the_last_operation_of_a_turn_are_not_advised_about(loops: Live) -> None:
    loops.report(TRAINING, cell_id="a")
    problems = [advice.problem for advice in advise(loops.report(TRAINING, cell_id="a"))]
    assert not [each for each in problems if "splits the graph" in each]
    between = "for r in rows:\n    y = r * 2\n    print(float(y[0]))\n    z = y + 1"
    problems = [advice.problem for advice in advise(loops.report(between))]
    assert [each for each in problems if each.startswith("Line 4 splits the graph")]
