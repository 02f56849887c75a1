"""The same cell again and again, an edited cell, and ``run``."""

from __future__ import annotations

import gc
import os

import psutil
import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis.advice import advise
from tests.capture.live import Live, live

CELL = (
    "y = x + 1\nfor i in range(2):\n    y = y * 2\nprint('a break')\n"
    "z = [y - k for k in range(2)]\nw = model(z[0])"
)


pytestmark = pytest.mark.usefixtures("older_objects_frozen")


NOTEBOOK = "x = torch.arange(3.)\nmodel = torch.nn.Linear(3, 3)"


def test_two_hundred_runs_compile_once(cells: Live, compiles: list[str]) -> None:
    cells.report(CELL, cell_id="a")
    first = len(compiles)
    assert first
    for _ in range(200):
        cells.well(f"%%dynamo -b eager --quiet\n{CELL}", "a")
    assert len(compiles) == first
    report = dynamo_ext.last_report()
    assert report.recompiles == ()
    assert {frame.outcome for frame in report.frames} == {"reused"}


@pytest.mark.parametrize(("start", "step"), [("0", "1"), ("5", "3")])
def test_a_counter_becomes_a_symbol_and_then_stays(
    cells: Live, compiles: list[str], start: str, step: str
) -> None:
    cells.well(f"n, total = {start}, x")
    text = f"n = n + {step}\ntotal = total + n"
    # torch takes 0 and 1 for constants even where a number is known to change.
    for _ in range(4):
        cells.report(text, cell_id="a")
    warm = len(compiles)
    for _ in range(50):
        report = cells.report(text, cell_id="a")
        assert (report.recompiles, report.fallbacks) == ((), ())
    assert len(compiles) == warm
    n, total = float(start), 0.0
    for _ in range(54):
        n += float(step)
        total += n
    assert cells.names["n"] == n
    assert cells.names["total"].tolist() == pytest.approx([total, total + 1, total + 2])


def test_a_changing_float_is_exact_and_its_eager_end_is_told(cells: Live) -> None:
    """As symbols floats come back stale or rounded, so each value is a constant, up to the limit."""
    cells.well("lr, y = 0.1, x")
    text = "lr = lr * 0.99\ny = x * lr"
    expected = 0.1
    for _ in range(12):
        report = cells.report(text, cell_id="a")
        expected = expected * 0.99
        assert cells.names["lr"] == expected
        assert cells.names["y"].tolist() == pytest.approx([0.0, expected, 2 * expected])
    assert [(f.stage, f.scope) for f in report.fallbacks] == [("capture", "frame")]
    assert report.fallbacks[0].remedy


def test_new_objects_of_the_same_kind_do_not_recompile(cells: Live, compiles: list[str]) -> None:
    text = "data = torch.randn(4, 3)\nout = model(data).relu().sum()"
    cells.report(text)
    first = len(compiles)
    for _ in range(20):
        cells.report(text)
    assert len(compiles) == first


@pytest.mark.parametrize(
    "text",
    ["def f(v):\n    return v * 2 + 1\ny = f(x)", "model = torch.nn.Linear(3, 3)\ny = model(x)"],
    ids=["function", "model"],
)
def test_what_is_made_anew_each_time_meets_no_limit(cells: Live, text: str) -> None:
    for _ in range(30):
        report = cells.report(text, cell_id="a")
    assert report.graphs
    assert report.fallbacks == ()
    assert {frame.outcome for frame in report.frames} <= {"compiled", "reused"}


def test_memory_stays_flat(cells: Live) -> None:
    line = f"%%dynamo -b eager\n{CELL}"
    process = psutil.Process(os.getpid())

    def settled() -> int:
        gc.collect()
        return int(process.memory_info().rss)

    for _ in range(60):
        cells.well(line, "a")
    before = settled()
    for _ in range(150):
        cells.well(line, "a")
    assert settled() - before < 12 * 2**20


def test_editing_again_and_again_keeps_memory_flat(cells: Live) -> None:
    process = psutil.Process(os.getpid())

    def edit(start: int, count: int) -> int:
        for number in range(start, start + count):
            cells.report(f"y = x + {number}\nz = y * 2", cell_id="a")
        gc.collect()
        return int(process.memory_info().rss)

    before = edit(0, 40)
    assert edit(100, 60) - before < 12 * 2**20


def test_an_edited_cells_graphs_die(cells: Live) -> None:
    cells.well(
        "import weakref\nkept = []\n"
        "def mine(gm, inputs):\n    kept.append(weakref.ref(gm))\n    return gm.forward"
    )
    for number in (1, 2):
        cells.report(f"y = x + {number}\nprint('a break')\nz = y * 2", "-b mine", "a")
    gc.collect()
    assert [ref() is None for ref in cells.names["kept"]] == [True, True, False, False]


def test_an_edited_cells_guards_die(cells: Live) -> None:
    """Torch keeps a guard on a class for as long as the class lives."""

    def guards() -> int:
        gc.collect()
        managers = torch._dynamo.guards.CheckFunctionManager
        return sum(type(each) is managers for each in gc.get_objects())

    cells.well("class Net(torch.nn.Linear):\n    pass\nnet = Net(3, 3)")
    text = "y = net(x)\nprint('a break')\nz = y + {}"
    cells.report(text.format(0), cell_id="a")
    before = guards()
    for number in range(1, 4):
        cells.report(text.format(number), cell_id="a")
    assert guards() <= before


def test_the_same_text_in_another_cell_finds_the_code(cells: Live, compiles: list[str]) -> None:
    cells.report("y = x + 1", cell_id="a")
    first = len(compiles)
    report = cells.report("y = x + 1", cell_id="b")
    assert len(compiles) == first
    assert report.frames[0].outcome == "reused"
    cells.report("y = x + 2", cell_id="a")
    assert cells.report("y = x + 1", cell_id="b").frames[0].outcome == "reused"


def test_quiet_and_o_do_not_make_a_new_program(cells: Live, compiles: list[str]) -> None:
    cells.report("y = x + 1", cell_id="a")
    first = len(compiles)
    assert cells.report("y = x + 1", "-b eager -o kept", "a").frames[0].outcome == "reused"
    assert len(compiles) == first


def test_two_backends_keep_their_code_apart(cells: Live, compiles: list[str]) -> None:
    cells.well("def mine(gm, inputs):\n    return gm.forward")
    for _ in range(2):
        reports = [cells.report("y = x + 1", f"-b {name}") for name in ("eager", "mine")]
    assert len(compiles) == 2
    assert [r.graphs[0].backend for r in reports] == ["eager", "mine"]
    assert [len(r.graphs) for r in reports] == [1, 1]


def test_run_reuses_a_seen_shape(cells: Live, compiles: list[str]) -> None:
    cells.report(CELL, cell_id="a")
    first = len(compiles)
    report = cells.report(CELL, "run", "a")
    assert len(compiles) == first
    assert report.mode == "run"
    assert report.backend == "eager"
    assert {frame.outcome for frame in report.frames} == {"reused"}
    assert all(graph.calls for graph in report.graphs)
    assert report.recompiles == ()


def test_run_takes_a_new_shape_eagerly_and_says_so(cells: Live, compiles: list[str]) -> None:
    cells.report("y = x * 2")
    first = len(compiles)
    cells.well("x = torch.ones(5)")
    for _ in range(2):
        report = cells.report("y = x * 2", "run")
        assert cells.names["y"].tolist() == [2.0] * 5
        (found,) = report.recompiles
        assert found.prevented
        assert (found.variable, found.expected, found.actual) == ("x", "3", "5")
        assert [(f.outcome, f.reason) for f in report.frames] == [
            ("eager", "no compiled version fits")
        ]
        assert report.graphs == ()
    assert len(compiles) == first
    cells.well("x = torch.ones(3)")
    assert cells.report("y = x * 2", "run").frames[0].outcome == "reused"


def test_run_of_a_cell_that_was_never_compiled(cells: Live, compiles: list[str]) -> None:
    report = cells.report("y = x * 3", "run")
    assert compiles == []
    (frame,) = report.frames
    assert frame.outcome == "eager"
    assert "not been compiled" in frame.reason
    assert cells.names["y"].tolist() == [0, 3, 6]


def test_run_lets_called_functions_reuse_their_code(cells: Live, compiles: list[str]) -> None:
    cells.well("def f(v):\n    print('f')\n    return v.sin() + 1")
    cells.report("y = f(x)")
    first = len(compiles)
    report = cells.report("y = f(x)", "run")
    assert len(compiles) == first
    assert any(graph.calls for graph in report.graphs)


def test_run_with_a_backend_reuses_that_ones(cells: Live, compiles: list[str]) -> None:
    cells.well("def mine(gm, inputs):\n    return gm.forward")
    for name in ("eager", "mine"):
        cells.report("y = x + 1", f"-b {name}")
    first = len(compiles)
    for name in ("eager", "mine"):
        report = cells.report("y = x + 1", f"run -b {name}")
        assert [graph.backend for graph in report.graphs] == [name]
    report = cells.report("y = x + 1", "run -b inductor")
    assert report.graphs == ()
    assert len(compiles) == first


def test_reset_forgets_everything(cells: Live) -> None:
    cells.report("y = x + 1")
    ran = cells.well("%dynamo reset")
    assert "forgotten" in ran.out
    report = cells.report("y = x + 1", "run")
    assert report.frames[0].outcome == "eager"
    assert cells.report("y = x + 1").frames[0].outcome == "compiled"


def test_a_name_that_does_not_exist_is_no_break() -> None:
    with live("x = torch.arange(3.)", "def f(v):\n    return v + later") as cells:
        for text in ("y = lacking(x)", "z = x + 1\ny = f(z)"):
            ran, report = cells.failed(text)
            assert isinstance(ran.error, NameError)
            assert report.error == str(f"NameError: {ran.error}")
            assert (report.breaks, report.fallbacks, advise(report)) == ((), (), ())
            assert all(graph.ended_by is None for graph in report.graphs)
            assert not any(frame.reason for frame in report.frames)
            shown = str(cells.run(f"%%dynamo -b eager\n{text}"))
            assert "is not defined" in shown
            assert "Dynamo bug" not in shown
            assert "frame builtins" not in shown


def test_a_name_that_is_defined_later_has_its_code_captured() -> None:
    with live("x = torch.arange(3.)", "def f(v):\n    return v + later") as cells:
        for text, given in (("y = lacking(x)", "lacking = torch.sin"), ("y = f(x)", "later = 1")):
            cells.failed(text)
            cells.well(given)
            report = cells.report(text)
            assert report.graphs
            assert (report.breaks, report.fallbacks) == ((), ())


def test_a_missing_name_that_the_code_catches_is_told() -> None:
    text = "try:\n    lacking\nexcept NameError:\n    lacking = x + 1\ny = lacking * 2"
    with live("x = torch.arange(3.)") as cells:
        first = advise(cells.report(text))[0]
    assert first.topic == "uncaptured"
    assert "`lacking` was not defined when Dynamo traced this code" in first.problem
    assert "Define it before" in first.step


def test_a_replaced_layer_is_no_batch() -> None:
    setup = "net = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 3))"
    swap = "net[1] = torch.nn.Linear(4, 2)\nnet[0].weight = torch.nn.Parameter(torch.ones(4, 4))"
    with live("x = torch.ones(8, 4)", setup) as cells:
        cells.report("y = net(x)")
        cells.well(swap)
        report = cells.report("y = net(x)")
    (recompile,) = report.recompiles
    assert (recompile.expected, recompile.actual) == ("3", "2")
    assert "consider" not in recompile.guard
    (found,) = [each for each in advise(report) if each.topic == "recompile"]
    assert "of the parameter `net.1.bias` (3, 2)" in found.problem
    assert found.step.startswith("Nothing needs to be done if the layer was meant to be replaced")
    assert "mark_dynamic" not in found.step
