"""A bound of accuracy on all that a cell gives: checked before the cell runs, and on its results."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
import torch

from dynamo_ext.auto import end_to_end, graph_race
from dynamo_ext.backends import entrypoints, precision, user_backends
from dynamo_ext.backends.base import WholeGraphBackend
from dynamo_ext.records.common import FULL
from dynamo_ext.timing.race import Plan, race
from dynamo_ext.torch_private.entered_modes import forward_of
from dynamo_ext.widgets.report import autotuning
from tests.backends.engine_zoo import error
from tests.capture.live import Live, live
from tests.timing import fake_clock

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OFF = 0.008
"""The relative error of each graph in the planted precision."""

WITH = "-b auto --opt candidates=planted --opt budget=0.05"
BOUND = "--accuracy rel<=0.01"

SETUP = """
torch.manual_seed(0)
x = torch.rand(64, 8) + 0.5
it = iter([1, 2])

def first(v):
    return v * 2.0

def second(v):
    return v * 3.0

def nearness(found, exact):
    return 1 - ((found - exact).abs() / exact.abs()).max()
"""
CHAIN = "y = second(torch._dynamo.disable(lambda v: v)(first(x)))"


class Planted(WholeGraphBackend):
    """Exact in float32, and off by ``OFF`` in bfloat16."""

    name = "planted"
    summary = "A lower precision with a known error"
    options = (precision.option("bf16"),)

    def lower(self, graph: Any, example_inputs: Any, options: Any) -> Any:
        del example_inputs
        off = 1.0 if precision.of(options) == FULL else 1.0 + OFF
        forward = forward_of(graph)

        def run(*args: Any) -> Any:
            return tuple(value * off for value in forward(*args))

        return run


@pytest.fixture
def cells(races: Any, monkeypatch: Any) -> Iterator[Live]:
    """A notebook in which ``planted:bf16`` wins each race that it may win."""
    del races
    fake_clock.install(monkeypatch)
    entrypoints.register_backend(Planted())

    def winner(speedups: Any) -> str:
        return next((name for name in speedups if name == "planted:bf16"), "eager")

    def all_of_it(running: Any, *_: Any) -> None:
        race(running, Plan(1.0, rounds=6))

    monkeypatch.setattr(graph_race.multi_backend, "winner_of", winner)
    monkeypatch.setattr(graph_race, "_time", all_of_it)
    with live(SETUP) as found:
        yield found
    user_backends.registered.pop("planted")


def winners(report: Any) -> list[str]:
    return [graph.contest.winner for graph in report.graphs]


def test_errors_that_add_up_put_graphs_back_before_the_cell_runs(cells: Live) -> None:
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert sorted(winners(report)) == ["eager", "planted:bf16"]
    assert error(cells.names["y"], cells.names["x"] * 6) == pytest.approx(OFF, rel=1e-3)
    found = report.end_to_end
    assert found.missed == pytest.approx(2 * OFF, rel=1e-2)
    assert found.reached == pytest.approx(OFF, rel=1e-3)
    assert (found.bound, found.reference, found.inputs) == ("rel<=0.01", "float64", 0)
    assert len(found.kept_full) == len(found.lowered) == 1
    assert not found.unchecked
    assert "rel<=0.01 was 0.016" in autotuning.sentence(report)


def test_a_graph_that_went_back_counts_no_products_as_lowered(cells: Live) -> None:
    cells.well("eye = torch.eye(64) * 2")
    report = cells.report(
        "y = torch._dynamo.disable(lambda v: v)(x * 1.5)\ny = eye @ y",
        f"{WITH} --accuracy rel<=0.01",
    )
    lowered = {graph.contest.winner: graph.lowered for graph in report.graphs}
    assert set(lowered) == {"eager", "planted:bf16"}
    assert lowered["eager"] is None


def test_a_bound_that_holds_is_said_once_and_lasts(cells: Live) -> None:
    line = f"{WITH} --accuracy rel<=0.05"
    report = cells.report(CHAIN, line)
    assert winners(report) == ["planted:bf16"] * 2
    found = report.end_to_end
    assert found.reached == pytest.approx(2 * OFF, rel=1e-2)
    assert (found.missed, found.kept_full, found.earlier) == (None, (), False)
    assert len(found.lowered) == 2
    # Its own run comes after, and is the one that is counted.
    assert [graph.calls for graph in report.graphs] == [1, 1]
    assert all(graph.compiled_now for graph in report.graphs)
    again = cells.report(CHAIN, line)
    assert not any(graph.compiled_now for graph in again.graphs)
    assert (again.end_to_end.earlier, again.end_to_end.seconds) == (True, 0.0)
    assert again.end_to_end.reached == found.reached
    assert not again.end_to_end.unchecked


def test_the_next_kernel_knows_what_went_back(cells: Live) -> None:
    cells.report(CHAIN, f"{WITH} {BOUND}")
    cells.well("%dynamo reset")
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert sorted(winners(report)) == ["eager", "planted:bf16"]
    assert all(graph.contest.remembered for graph in report.graphs)
    assert report.end_to_end.kept_full == ()
    assert report.end_to_end.reached == pytest.approx(OFF, rel=1e-3)


def test_a_remembered_winner_goes_back_too_and_is_raced_again(cells: Live, races: Any) -> None:
    for single in ("y = first(x)", "y = second(x)"):
        cells.report(single, f"{WITH} {BOUND}")
    assert {entry.contest.winner for entry in races.all()} == {"planted:bf16"}
    cells.well("%dynamo reset")
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert len(report.end_to_end.kept_full) == 1
    assert error(cells.names["y"], cells.names["x"] * 6) < 0.01
    assert len(races.all()) == 1


def test_without_a_bound_the_cell_runs_once(cells: Live, monkeypatch: Any) -> None:
    monkeypatch.setattr(end_to_end, "Rehearsal", None)
    report = cells.report(f"n = globals().get('n', 0) + 1\n{CHAIN}", WITH)
    assert report.end_to_end is None
    assert report.confirm_seconds == 0
    assert cells.names["n"] == 1


def test_the_namespace_and_what_is_printed_are_those_of_one_run(cells: Live) -> None:
    cells.well("seen = []")
    state = torch.get_rng_state()
    ran = cells.well(
        f"%%dynamo {WITH} {BOUND} --quiet\n"
        f"{CHAIN}\nseen.append(1)\nx.add_(1)\ndraw = torch.rand(1)\nprint(len(seen))"
    )
    assert ran.out == "1\n"
    assert cells.names["seen"] == [1]
    torch.set_rng_state(state)
    assert torch.equal(cells.names["draw"], torch.rand(1))
    torch.manual_seed(0)
    assert torch.equal(cells.names["x"], torch.rand(64, 8) + 1.5)


def test_a_warning_is_given_in_the_cells_own_run(
    cells: Live, tmp_path: Path, monkeypatch: Any
) -> None:
    source = "import warnings\ndef warn():\n    warnings.warn('look')"
    (tmp_path / "warns_once.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    cells.well("import warns_once as library")
    # Without tensors nothing is traced, which would let Python forget what it has shown.
    ran = cells.run(f"%%dynamo {WITH} {BOUND} --quiet\nlibrary.warn()")
    assert ran.err.count("UserWarning: look") == 1


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ("next(it)", "it (a list_iterator) cannot be put back"),
        ("open(path, 'a').close()", "which cannot be taken back"),
        ("try:\n    open(path, 'a').close()\nexcept BaseException:\n    pass", "It writes"),
        ("asked = input()", "It asks for input"),
        (
            "import threading\nthreading.Thread(target=len, args=('',)).start()",
            "It starts a thread",
        ),
        (
            "from concurrent.futures import ThreadPoolExecutor as Pool\nPool(1).submit(len, '')",
            "It",
        ),
        ("!true", "It starts a process, which"),
        ("torch.save(x, path)", "It writes /"),
    ],
)
def test_a_cell_that_cannot_run_twice_runs_once(
    cells: Live, tmp_path: Any, monkeypatch: Any, more: str, said: str
) -> None:
    monkeypatch.setattr("builtins.input", lambda: "answer")
    cells.names["path"] = str(tmp_path / "out")
    cells.well("calls = []")
    report = cells.report(f"{more}\n{CHAIN}", f"{WITH} {BOUND}")
    assert said in report.end_to_end.lack
    assert winners(report) == ["planted:bf16"] * 2
    assert set(report.end_to_end.unchecked) == {"g0", "g1"} == set(report.end_to_end.lowered)
    assert "for each graph alone" in autotuning.sentence(report)
    assert next(cells.names["it"]) == (2 if "next" in more else 1)


@pytest.mark.parametrize(
    ("setup", "more", "said"),
    [
        ("m = torch.nn.LazyLinear(3)", "z = m(x)", "calls a lazy module"),
        ("more = iter([])", "z = list(more)", "more (a list_iterator) cannot be put back"),
    ],
)
def test_what_only_stood_in_the_way_once_is_looked_at_again(
    cells: Live, setup: str, more: str, said: str
) -> None:
    cells.well(setup)
    report = cells.report(f"{CHAIN}\n{more}", f"{WITH} {BOUND}")
    assert said in report.end_to_end.lack
    cells.well("more = []")
    report = cells.report(f"{CHAIN}\n{more}", f"{WITH} {BOUND}")
    assert (report.end_to_end.lack, report.end_to_end.unchecked) == ("", ())
    assert cells.report(f"{CHAIN}\n{more}", f"{WITH} {BOUND}").end_to_end.earlier


@pytest.mark.parametrize(
    ("setup", "more"),
    [
        (
            "class R(random.Random):\n    def getstate(self): raise ValueError\nr = R()",
            "r.random()",
        ),
        ("class R(dict):\n    def clear(self): raise ValueError\nr = R()", "r['a'] = 1"),
    ],
)
def test_what_cannot_be_kept_or_put_back_ends_the_check_alone(
    cells: Live, setup: str, more: str
) -> None:
    cells.well(f"import random\n{setup}")
    report = cells.report(f"{CHAIN}\n{more}", f"{WITH} {BOUND}")
    assert "raised ValueError" in report.end_to_end.lack
    assert "y" in cells.names


def test_a_cell_that_names_the_shell_is_checked(cells: Live) -> None:
    report = cells.report(f"{CHAIN}\nshell = get_ipython()", f"{WITH} {BOUND}")
    assert len(report.end_to_end.lowered) == len(report.end_to_end.kept_full) == 1


def test_a_plot_has_the_lines_of_one_run(cells: Live) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    cells.well("import matplotlib.pyplot as plt\nplt.close('all')")
    cells.report(f"{CHAIN}\nlines = plt.plot([1, 2])\nn = len(plt.gca().lines)", f"{WITH} {BOUND}")
    assert cells.names["n"] == 1
    cells.well("plt.close('all')")


def test_other_flags_have_a_check_of_their_own(cells: Live) -> None:
    cells.report(CHAIN, f"{WITH} {BOUND}")
    found = [cells.report(CHAIN, f"{WITH} {BOUND} --dynamic").end_to_end for _ in range(2)]
    assert [each.earlier for each in found] == [False, True]
    assert [each.unchecked for each in found] == [(), ()]


@pytest.mark.parametrize(
    ("ends", "kind"),
    [
        ("len(3)", TypeError),
        ("raise SystemExit", SystemExit),
        ("import asyncio\nraise asyncio.CancelledError", asyncio.CancelledError),
    ],
)
def test_a_cell_that_raises_does_so_in_its_own_run(cells: Live, ends: str, kind: type) -> None:
    ran, report = cells.failed(f"{CHAIN}\n{ends}", f"{WITH} {BOUND}")
    assert isinstance(ran.error, kind)
    assert f"raised {kind.__name__}" in report.end_to_end.lack
    assert "y" in cells.names


def test_where_nothing_is_lowered_the_report_says_nothing(cells: Live) -> None:
    report = cells.report(CHAIN, f"{WITH} --accuracy rel<=0.0001")
    found = report.end_to_end
    assert (found.lowered, found.kept_full, found.reached) == ((), (), None)
    assert "0.0001" not in autotuning.sentence(report)


def test_an_interrupt_of_the_check_leaves_all_as_it_was(cells: Live) -> None:
    cells.well("seen = []\ndef stop():\n    raise KeyboardInterrupt")
    before = dict(cells.names)
    ran, _ = cells.failed(f"seen.append(1)\n{CHAIN}\nstop()", f"{WITH} {BOUND}")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert (cells.names["seen"], "y" in cells.names) == ([], False)
    assert cells.names["x"] is before["x"]


def test_a_cell_that_takes_long_is_not_run_again(cells: Live, monkeypatch: Any) -> None:
    monkeypatch.setattr(end_to_end, "LONGEST", 0.0)
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert "is too long" in report.end_to_end.lack


def test_the_bound_is_checked_on_other_inputs(cells: Live) -> None:
    cells.well("batches = [torch.rand(30, 8) + 1, torch.rand(20, 8)]")
    before = cells.names["x"]
    report = cells.report(CHAIN, f"{WITH} {BOUND} --check-on x=batches")
    assert cells.names["x"] is before
    found = report.end_to_end
    assert (found.inputs, len(found.kept_full) >= 1) == (2, True)
    assert "on 2 other inputs" in autotuning.sentence(report)
    line = f"{WITH} {BOUND} --check-on x=batches"
    assert cells.report(CHAIN, line).end_to_end.earlier
    cells.well("batches = [*batches, torch.rand(9, 8)]")
    assert cells.report(CHAIN, line).end_to_end.inputs == 3


def test_graphs_that_other_inputs_do_not_run_are_judged_by_the_cells_own(
    cells: Live, monkeypatch: Any
) -> None:
    order: dict[Any, int] = {}
    monkeypatch.setattr(end_to_end, "_error", lambda entry: order.setdefault(entry, len(order)))
    cells.well("batches = [torch.rand(1, 8) + 1]")
    report = cells.report(CHAIN, f"{WITH} {BOUND} --check-on x=batches")
    assert error(cells.names["y"], cells.names["x"] * 6) < 0.01
    assert report.end_to_end.kept_full


def test_a_metric_of_the_users_is_checked_on_all_alone(cells: Live) -> None:
    line = f"{WITH} --metric nearness --accuracy"
    report = cells.report(CHAIN, f"{line} metric>=0.99")
    assert report.end_to_end.reached == pytest.approx(1 - OFF, rel=1e-3)
    assert report.end_to_end.missed == pytest.approx(1 - 2 * OFF, rel=1e-3)
    assert sorted(winners(report)) == ["eager", "planted:bf16"]
    report = cells.report(f"next(it)\n{CHAIN}", f"{line} metric>=0.98")
    assert winners(report) == ["eager"] * 2
    assert [f.harmless for f in report.fallbacks] == [True, True]


def test_graphs_that_come_later_are_checked_before_the_next_run(cells: Live) -> None:
    cells.report(CHAIN, f"{WITH} {BOUND}")
    cells.well("x = torch.rand(9, 5, 5) + 1")
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert report.end_to_end.unchecked
    assert "the next run checks it" in autotuning.sentence(report)
    report = cells.report(CHAIN, f"{WITH} {BOUND}")
    assert not report.end_to_end.unchecked
    assert not report.end_to_end.earlier


def test_a_graph_that_went_back_before_is_named_after_another_check(cells: Live) -> None:
    cells.well("more = False")
    cell = f"{CHAIN}\nif more:\n    z = first(x[0])"
    before = cells.report(cell, f"{WITH} {BOUND}").end_to_end
    cells.well("more = True")
    assert cells.report(cell, f"{WITH} {BOUND}").end_to_end.unchecked
    after = cells.report(cell, f"{WITH} {BOUND}").end_to_end
    assert not after.earlier
    assert len(after.kept_full) == len(before.kept_full) == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--metric nearness", "--metric needs a bound. Add --accuracy"),
        ("--check-on x=batches", "--check-on calibrates int8, or checks the bound of auto."),
        ("--accuracy rel<=1 --check-on x=nothing", "is not a name of yours with a list"),
        ("--accuracy metric>=1", "metric is a function of yours"),
        ("--accuracy metric>=1 --metric bad", "The metric bad raised KeyError: 'gone'"),
    ],
)
def test_a_bound_that_cannot_be_checked_is_one_sentence(cells: Live, line: str, said: str) -> None:
    cells.well("batches = [x]\ndef bad(found, exact):\n    raise KeyError('gone')")
    ran = cells.run(f"%%dynamo {WITH} {line} --quiet\n{CHAIN}")
    assert said in str(ran.error)
    assert "y" not in cells.names
