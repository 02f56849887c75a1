"""What the report of a real cell says: frames, graphs, breaks, guards, recompiles, fallbacks."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis.guards import condition
from dynamo_ext.capture.torch_private import frame_answers
from tests.needs import captures_less

if TYPE_CHECKING:
    from dynamo_ext.records.report import Report
    from tests.capture.live import Live

BREAKS = "y = x + 1\nprint('one')\nz = y * 2\nprint('two')\nw = z - 1"


def outcomes(report: Report) -> list[tuple[str, str]]:
    return [(frame.name, frame.outcome) for frame in report.frames]


def test_a_compiled_cell(cells: Live) -> None:
    report = cells.report("y = x + 1\nz = y * 2")
    assert outcomes(report) == [("<module>", "compiled")]
    (frame,) = report.frames
    assert frame.in_cell
    assert frame.graphs == ("g0",)
    assert frame.guards == len(report.guards) > 0
    assert 0 < frame.compile_seconds <= report.compile_seconds + 1e-6 <= report.seconds + 1e-6
    (graph,) = report.graphs
    assert (graph.calls, graph.compiled_now, graph.backend) == (1, True, "eager")
    assert graph.operation_count == 2
    assert graph.frame == frame.id
    assert graph.run_seconds > 0
    assert graph.compile_seconds > 0
    assert graph.ended_by is None
    assert report.cell is not None
    assert report.cell.source.splitlines()[1] == "y = x + 1"
    assert (report.mode, report.backend, report.error) == ("optimize", "eager", "")
    assert dict(report.versions)["torch"].startswith("2.")
    guards = [dataclasses.replace(each, line=None) for each in report.guards]
    assert len(guards) == len(set(guards)), "equal ones are one"


def test_a_reused_run_still_has_the_full_report(cells: Live) -> None:
    text = "for i in range(2):\n    y = x + i\n" + BREAKS
    first = cells.report(text)
    again = cells.report(text)
    assert {o for _, o in outcomes(first)} == {"compiled"}
    assert {o for _, o in outcomes(again)} == {"reused"}
    assert again.compile_seconds == 0
    assert [f.compile_seconds for f in again.frames] == [0] * len(first.frames)
    assert [g.operations for g in again.graphs] == [g.operations for g in first.graphs]
    assert [g.compiled_now for g in again.graphs] == [False] * len(first.graphs)
    assert [g.calls for g in again.graphs] == [g.calls for g in first.graphs]
    assert again.guards == first.guards
    assert again.breaks == first.breaks
    assert [g.ended_by for g in again.graphs] == [g.ended_by for g in first.graphs]


def test_breaks_say_where_and_why(cells: Live) -> None:
    report = cells.report("y = x + 1\nprint(y)\nz = y * 2\nprint(z)\nw = z - 1")
    found, other = report.breaks
    assert other.line is not None
    assert other.line.line == 5
    assert found.registry_id == "gb0059"
    assert found.link.endswith("/gb0059.html")
    assert "builtin" in found.reason
    assert "print" in found.explanation
    assert found.hints
    assert found.line is not None
    assert (found.line.line, found.line.code, found.line.in_cell) == (3, "print(y)", True)
    assert [g.ended_by for g in report.graphs] == [0, 1, None]
    assert found.count == 1


def test_equal_breaks_are_kept_once_with_a_count(cells: Live) -> None:
    cells.well("def f(v):\n    print(v)\n    return v + 1")
    report = cells.report("y = f(x)\nz = f(y.double())")
    keys = [(b.registry_id, b.reason, b.line) for b in report.breaks]
    assert len(keys) == len(set(keys))
    assert max(b.count for b in report.breaks) > 1


def test_a_data_dependent_branch(cells: Live) -> None:
    cells.well("def toy(a, b):\n    v = a / (a.abs() + 1)\n    if b.sum() < 0:\n        b = b * -1\n"
               "    return v * b")  # fmt: skip
    report = cells.report("y = toy(x, x)")
    assert any("branch" in b.reason.lower() or "jump" in b.reason.lower() for b in report.breaks)
    (found,) = [b for b in report.breaks if b.registry_id == "gb0170"]
    assert found.stack
    assert found.stack[-1].code == "if b.sum() < 0:"
    assert found.line is not None
    assert found.line.in_cell


def test_guards_are_words_about_the_users_variables(cells: Live) -> None:
    cells.well("scale = [2]\nlayer = torch.nn.Linear(3, 3)")
    report = cells.report("y = x + scale[0]\nz = layer(y)")
    by_variable = {guard.variable for guard in report.guards}
    assert {"x", "scale", "layer", "torch"} <= by_variable
    (tensor,) = [g for g in report.guards if g.kind == "TENSOR_MATCH" and g.variable == "x"]
    assert condition(tensor) == "`x` must stay a float32 tensor on the CPU of shape (3,)"
    assert tensor.line is not None
    assert tensor.line.line == 2
    assert tensor.frame == report.frames[0].id
    assert all(not condition(guard).startswith("`L[") for guard in report.guards)


def test_a_recompile_says_what_changed(cells: Live) -> None:
    text = "y = x * 2"
    cells.report(text)
    cells.well("x = torch.ones(5)")
    report = cells.report(text)
    (found,) = report.recompiles
    assert (found.variable, found.expected, found.actual) == ("x", "3", "5")
    assert not found.prevented
    assert found.line is not None
    assert found.line.in_cell
    assert outcomes(report)[0] == ("<module>", "compiled")


def test_a_skipped_frame_stays_reported_on_later_runs(cells: Live) -> None:
    cells.well(
        "def f(v):\n    try:\n        print(v)\n        raise ValueError\n    except ValueError:\n        return v + 1"
    )
    first = cells.report("y = f(x)\nz = y + 1")
    again = cells.report("y = f(x)\nz = y + 1")
    eager = {(f.name, f.outcome) for f in first.frames if f.outcome in ("skipped", "failed")}
    assert eager <= {(f.name, f.outcome) for f in again.frames}
    assert [b.reason for b in again.breaks] == [b.reason for b in first.breaks]


@captures_less("2.12", "captures nothing of a layer whose hook ends a graph")
def test_a_layer_whose_hook_ends_a_graph_is_in_the_report(cells: Live) -> None:
    cells.well(
        # Torch leaves the code of a layer that has run without hooks alone, for good.
        "net = torch.nn.Sequential(torch.nn.Softshrink(), torch.nn.Hardshrink())\n"
        "for layer in net:\n    _ = layer.register_forward_hook(lambda *about: print('ran'))"
    )
    first = cells.report("y = net(x)")
    assert [graph.operation_count for graph in first.graphs] == [1, 1]
    assert [f.outcome for f in first.frames if f.name == "forward"] == ["compiled", "compiled"]
    again = cells.report("y = net(x)", "run")
    assert [graph.calls for graph in again.graphs] == [1, 1]
    cells.well("x = torch.ones(2, 3)")
    kept = cells.report("y = net(x)", "run")
    assert [f.outcome for f in kept.frames if f.name == "forward"] == ["eager", "eager"]


def test_a_failed_capture_is_a_fallback(cells: Live) -> None:
    cells.well("def bad(gm, inputs):\n    raise RuntimeError('cannot do it')")
    report = cells.report("y = x + 1", "-b bad")
    (found,) = report.fallbacks
    assert (found.stage, found.scope, found.exception) == ("lower", "graph", "RuntimeError")
    assert "cannot do it" in found.message
    assert found.subject == "g0"
    assert cells.names["y"].tolist() == [1, 2, 3]
    again = cells.report("y = x + 1", "-b bad")
    assert [f.stage for f in again.fallbacks] == ["lower"]


def test_fullgraph_raises_the_break(cells: Live) -> None:
    ran, report = cells.failed("y = x + 1\nprint(y)\nz = y * 2", "-b eager --fullgraph")
    assert type(ran.error).__name__ == "Unsupported"
    assert report.error
    assert report.refused
    assert "y" not in cells.names


def test_the_report_says_at_which_line_of_the_cell_an_error_came(cells: Live) -> None:
    text = "def f(v):\n    return v @ torch.ones(7, 7)\ny = x + 1\nz = f(y)\nw = y * 2"
    ran, report = cells.failed(text)
    assert isinstance(ran.error, RuntimeError)
    assert report.error.startswith("RuntimeError: ")
    assert "\n" not in report.error
    assert (report.stopped_at, report.refused, report.interrupted) == (5, False, False)
    assert cells.names["y"].tolist() == [1, 2, 3]
    assert "w" not in cells.names
    assert not cells.report("y = x + 1").stopped_at


def test_an_error_after_a_break_is_at_its_own_line(cells: Live) -> None:
    text = "def f(v):\n    v = v + 1\n    print(v)\n    return v * 2\ny = f(x)\nz = y + 1\nz.item()"
    _, report = cells.failed(text)
    assert (len(report.graphs), report.stopped_at) == (3, 8)


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("y = x + missing", NameError),
        ("def f(k): return k * missing\ny = f(x)", NameError),
        ("y = x.nothing()", AttributeError),
        ("d = {}\ny = x + d['k']", KeyError),
        ("z = x + 1\ny = z @ torch.ones(7, 7)", RuntimeError),
    ],
)
def test_with_fullgraph_an_error_of_the_user_is_the_users(
    cells: Live, text: str, error: type[Exception]
) -> None:
    ran, report = cells.failed(text, "-b eager --fullgraph")
    assert type(ran.error) is error
    assert report.error.startswith(error.__name__)
    assert "y" not in cells.names


def test_with_fullgraph_what_eager_does_not_raise_is_raised_after_all(
    cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(frame_answers, "is_users_own", lambda _: True)
    ran, _ = cells.failed("print(x)\ny = x * 2", "-b eager --fullgraph")
    assert type(ran.error).__name__ == "Unsupported"
    cells.report("z = x * 2", "-b eager --fullgraph")


def test_a_cell_without_tensors_has_no_graph(cells: Live) -> None:
    report = cells.report("n = sum(range(10))")
    assert report.graphs == ()
    assert report.fallbacks == ()
    assert cells.names["n"] == 45


@pytest.mark.parametrize("backend", ["eager", "onnxrt"])
def test_nothing_is_said_on_stderr(cells: Live, backend: str) -> None:
    cells.well(
        "def f(v):\n    print('f')\n    if v.sum() > 0:\n        v = v * 2\n    return v.tolist()"
    )
    ran = cells.run(f"%%dynamo -b {backend}\ny = f(x)\nz = x.sin().cos().tanh() + y[0]")
    assert ran.error is None
    assert ran.err == ""
    for size in range(4, 16):
        cells.well(f"x = torch.ones({size})")
        assert cells.run(f"%%dynamo -b {backend} --static --quiet\ny = x.sin() + 1").err == ""


FLAKY = (
    "def flaky(gm, inputs):\n    calls = []\n    def call(*args):\n        calls.append(1)\n"
    "        if len(calls) == 2:\n            raise OSError('gone')\n"
    "        return gm.forward(*args)\n    return call"
)


def test_a_run_fallback_is_reported_by_the_run_it_happened_in(cells: Live) -> None:
    cells.well(FLAKY)
    counts = []
    for _ in range(4):
        report = cells.report("y = x + 1", "-b flaky")
        counts.append([(f.stage, f.count) for f in report.fallbacks])
        assert cells.names["y"].tolist() == [1, 2, 3]
    assert counts == [[], [("run", 1)], [], []]


def test_a_sessions_report_can_be_asked_for_twice() -> None:
    def broken(gm: torch.fx.GraphModule, inputs: object) -> object:
        def call(*args: object) -> object:
            raise OSError

        return call

    fast = dynamo_ext.optimize(broken)(lambda v: v + 1)
    fast(torch.ones(2))
    assert [f.stage for f in fast.report().fallbacks] == ["run"]
    assert fast.report() == fast.report()
