"""The magics as a user meets them: reports, commands, interrupts, unloading."""

from __future__ import annotations

import builtins
import os
import signal
import subprocess
import sys
import traceback
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import torch

import dynamo_ext
from dynamo_ext.magics import workbench
from dynamo_ext.magics.dynamo import DynamoMagics
from tests.capture.live import Live, counting_compiles, live
from tests.magics.shell import interruptible

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[2]


def test_the_first_report_has_what_loading_took(cells: Live) -> None:
    cells.well("%%dynamo -b eager --quiet -o first\ny = x + 1")
    cells.well("%%dynamo -b eager --quiet -o second\ny = x + 1")
    assert dict(cells.names["first"].loads).keys() == {"torch._dynamo", "eager"}
    assert dict(cells.names["second"].loads).keys() == {"eager"}
    assert cells.names["second"] is dynamo_ext.last_report()


def test_a_break_in_another_cell_names_that_cell(cells: Live) -> None:
    cells.well("def f(x):\n    y = x + 1\n    return y * y.sum().item()")
    number = cells.shell.execution_count - 1
    said = " ".join(cells.well("%%dynamo -b eager\nz = f(x)").out.split())
    assert f"line 3 of `f` in In[{number}], called at line 2: `.item()` reads" in said


def test_a_refusal_is_said_once_and_with_both_ways_on(cells: Live) -> None:
    text = "y = x + 1\nprint('hi')\nz = y * 2"
    ran = cells.run(f"%%dynamo -b eager --fullgraph\n{text}")
    out, shown = " ".join(ran.out.split()), ran.shown
    assert "✗ refused Gain Not measured. --fullgraph asks for one graph, and line 3 ends it" in out
    assert "Print after the compiled code" in out
    assert "Or leave --fullgraph out" in out
    assert "The code raised" not in out
    assert "eager │" not in out
    assert "✂ │ print" in out
    assert "The report says why" in shown
    assert "Developer debug context" not in shown
    quiet = cells.run(f"%%dynamo -b eager --fullgraph --quiet\n{text}").shown
    assert "line 3 ends it because it prints" in quiet


def test_o_keeps_the_report_of_a_cell_that_fails(cells: Live) -> None:
    ran = cells.run("%%dynamo -b eager -o r\ny = x + 1\n1 / 0")
    assert isinstance(ran.error, ZeroDivisionError)
    assert "ZeroDivisionError" in ran.shown
    assert "eager" in ran.out or ran.displays, "it is shown, too"
    assert cells.names["r"].error.startswith("ZeroDivisionError")
    assert cells.names["y"].tolist() == [1, 2, 3]


def test_quiet_shows_nothing_and_else_there_is_a_report(cells: Live) -> None:
    quiet = cells.well("%%dynamo -b eager --quiet\ny = x + 1")
    assert (quiet.out, quiet.outputs) == ("", [])
    loud = cells.well("%%dynamo -b eager\ny = x + 1")
    assert "1 graph" in loud.out or loud.displays


def test_a_cell_that_a_front_end_runs_silently_shows_nothing(cells: Live) -> None:
    for text in ("y = x + 1\ny", "%%dynamo -b eager\ny = x + 2\ny"):
        cells.shell.outputs = outputs = []
        assert cells.shell.run_cell(text, silent=True).success
        assert outputs == []
    assert cells.names["y"].tolist() == [2, 3, 4]
    assert [out[0] for out in cells.well("%%dynamo -b eager --quiet\ny = x + 2\ny").outputs] == [
        "result"
    ]


@pytest.mark.parametrize(
    ("text", "kind", "where"),
    [
        ("y = = 1", SyntaxError, []),
        ("if True:\ny = 1", SyntaxError, []),
        ("exec('y = = 1')", SyntaxError, ["<module>"]),
        ("y = x + 1\n1 / 0", ZeroDivisionError, ["<module>"]),
        ("def f(x):\n    return x.nothing\ny = f(x)", AttributeError, ["<module>", "f"]),
        ("raise ExceptionGroup('two', [ValueError(1)])", ExceptionGroup, ["<module>"]),
    ],
)
def test_a_users_handler_is_given_the_error(
    cells: Live, text: str, kind: type[BaseException], where: list[str]
) -> None:
    heard: list[Any] = []

    def handler(_shell: Any, *args: Any, tb_offset: Any = None) -> None:
        heard.append((*args, tb_offset))

    cells.shell.set_custom_exc((kind,), handler)
    for magic in ("", "%%dynamo -b eager --quiet\n"):
        heard.clear()
        done = cells.run(magic + text)
        assert isinstance(done.error, kind)
        assert (done.shown, done.out) == ("", "")
        ((named, error, trace, offset),) = heard
        assert (named, error, offset) == (type(done.error), done.error, None)
        frames = [frame.f_code.co_name for frame, _ in traceback.walk_tb(trace)]
        # A plain cell's begins with IPython's own.
        assert frames[-len(where) :] == where or not where
        assert not magic or not where or frames == where


def test_report_shows_the_last_one_again(cells: Live) -> None:
    first = cells.well("%%dynamo -b eager\ny = x + 1")
    again = cells.well("%dynamo report")
    head, _, more = first.out.rpartition("\n\n")
    assert again.out.startswith(head)
    assert "%dynamo report shows all of" in more
    assert cells.well("%dynamo report --markdown").out == dynamo_ext.last_report().to_markdown()
    assert "%dynamo report --markdown" in str(cells.run("%dynamo report --html").error)


def python(code: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "IPYTHONDIR": "/tmp/ipython-of-tests"}
    # IPython warns where it names another environment than the one that runs it.
    environment.pop("VIRTUAL_ENV", None)
    return subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment
    )


def test_before_any_cell_there_is_no_report_and_a_process_ends_without_a_word() -> None:
    """Compiled code outlives the notebook; its end must not be seen."""
    code = (
        "from IPython.core.interactiveshell import InteractiveShell as S\n"
        "import dynamo_ext\n"
        "s = S.instance()\n"
        "s.run_cell('%load_ext dynamo_ext')\n"
        "s.run_cell('%dynamo report')\n"
        "s.run_cell('import torch\\nx = torch.ones(3)')\n"
        "text = '%%dynamo -b eager --quiet\\ny = x + 1\\nprint(y.sum())\\nz = y * 2'\n"
        "s.run_cell(text)\n"
        "s.run_cell(text.replace('eager', 'run').replace('-b ', ''))\n"
        "with dynamo_ext.run(): s.user_ns['x'] + 1\n"
    )
    done = python(code)
    assert done.returncode == 0
    assert done.stderr.startswith("UsageError: Nothing has run")
    assert done.stderr.count("\n") == 1
    assert done.stdout == "tensor(6.)\ntensor(6.)\n"


def test_backends_lists_all_with_reason_and_remedy(cells: Live) -> None:
    ran = cells.well("%dynamo backends")
    shown = ran.out + "".join(str(d) for d in ran.displays)
    for word in ("eager", "inductor", "onnxrt", "tvm"):
        assert word in shown
    assert torch.__version__.split("+")[0] in shown


def test_one_backend_has_its_options(cells: Live) -> None:
    ran = cells.well("%dynamo backends onnxrt")
    shown = ran.out + "".join(str(d) for d in ran.displays)
    for word in ("freeze", "verify", "threads"):
        assert word in shown
    assert "inductor" not in shown


def test_use_changes_the_default_for_good(cells: Live) -> None:
    assert "eager" in cells.well("%dynamo use eager").out
    assert cells.report("y = x + 1", "").backend == "eager"
    ran = cells.well("%dynamo use tensorrt")
    assert "not available" in ran.out
    assert cells.report("y = x + 1", "").fallbacks[0].stage == "unavailable"
    cells.well("def mine(gm, inputs):\n    return gm.forward")
    cells.well("%dynamo use mine")
    assert cells.report("y = x + 1", "").backend == "mine"
    assert "backend is mine." in cells.well("%dynamo reset").out
    assert cells.report("n = 1", "").backend == "mine"


def test_cells_are_plain_while_it_is_off(cells: Live) -> None:
    before = cells.report("y = x + 1")
    assert "%dynamo on" in cells.well("%dynamo off").out
    ran = cells.well("%%dynamo -b eager\nz = x + 1\nz.sum().item()")
    assert "plain cell" in ran.out
    assert torch.equal(cells.names["z"], cells.names["x"] + 1)
    assert dynamo_ext.last_report() is before
    failed = cells.run("%%dynamo -b eager\n1 / 0")
    assert isinstance(failed.error, ZeroDivisionError)
    cells.well("%dynamo on")
    assert cells.report("y = x + 2") is not before


@pytest.mark.skipif(
    not hasattr(torch.compiler, "set_default_backend"), reason="Torch 2.13 brings it."
)
def test_torchs_default_is_ours_until_use(cells: Live) -> None:
    def mine(graph: torch.fx.GraphModule, _: list[torch.Tensor]) -> Callable[..., Any]:
        return graph.forward

    try:
        torch.compiler.set_default_backend("aot_eager")
        assert cells.report("y = x + 1", "").backend == "aot_eager"
        torch.compiler.set_default_backend(mine)
        assert cells.report("y = x + 2", "").backend == "mine"
        cells.well("%dynamo use eager")
        assert cells.report("y = x + 3", "").backend == "eager"
        assert "backend is eager." in cells.well("%dynamo reset").out
    finally:
        torch.compiler.set_default_backend(None)


def test_a_refused_use_keeps_the_default(cells: Live) -> None:
    cells.well("%dynamo use eager")
    cells.run("%dynamo use nope")
    assert cells.report("y = x + 1", "").backend == "eager"


@pytest.mark.parametrize("line", ["%%dynamo?", "?dynamo", "%dynamo?"])
def test_help_is_worth_reading(cells: Live, line: str) -> None:
    shown: list[str] = []
    cells.shell.hooks  # noqa: B018
    cells.shell.set_hook("show_in_pager", lambda _, text, *a, **k: shown.append(str(text)), 0)
    cells.run(line)
    text = "".join(shown)
    for word in ("%%dynamo -b onnxrt", "%dynamo backends", "--fullgraph", "KEY=VALUE", "run"):
        assert word in text
    assert "%%%%" not in text


def test_dash_h_prints_the_help(cells: Live) -> None:
    for text in ("%%dynamo -h\ny = 1", "%dynamo --help"):
        said = cells.well(text).out
        assert "%%dynamo -b onnxrt" in said
        assert "::" not in said
    assert "y" not in cells.names


def test_interrupt_while_compiling(cells: Live) -> None:
    cells.well(
        "import signal\n"
        "def stops(gm, inputs):\n    signal.raise_signal(signal.SIGINT)\n    return gm.forward"
    )
    ran = cells.run("%%dynamo -b stops --quiet\nimport os\nbefore = 1\ny = x + 1\nz = 2")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "KeyboardInterrupt" in ran.shown
    assert dynamo_ext.last_report().interrupted
    assert "dynamo_ext" not in ran.shown
    assert {"os", "before", "y"} <= cells.names.keys()
    assert "z" not in cells.names
    cells.well("%%dynamo -b eager --quiet\ny = x + 1")
    assert cells.names["y"].tolist() == [1, 2, 3]


def test_a_cell_is_interrupted_where_the_run_ignores_it() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with live() as cells:
            ran = cells.run("import signal\nsignal.raise_signal(signal.SIGINT)")
        assert isinstance(ran.error, KeyboardInterrupt)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_interrupt_while_running(cells: Live) -> None:
    cells.well(
        "import signal\ndef stop():\n    print('now')\n    signal.raise_signal(signal.SIGINT)"
    )
    before = set(cells.names)
    ran = cells.run("%%dynamo -b eager\ny = x + 1\nstop()\nz = y * 2")
    assert torch._C._dynamo.eval_frame.get_eval_frame_callback() is None
    assert {n for n in set(cells.names) - before if not n.startswith("_i")} == {"y"}
    assert isinstance(ran.error, KeyboardInterrupt)
    assert "KeyboardInterrupt" in ran.shown
    assert "----> 3" in ran.shown
    assert dynamo_ext.last_report().interrupted
    assert cells.names["y"].tolist() == [1, 2, 3]
    again = cells.run("%%dynamo -b eager --quiet\ny = x + 5\nstop()\nz = y * 2")
    assert isinstance(again.error, KeyboardInterrupt)
    assert cells.names["y"].tolist() == [5, 6, 7]


def test_interrupt_inside_a_graph(cells: Live) -> None:
    cells.well(
        "import signal\n"
        "def slow(gm, inputs):\n"
        "    def call(*args):\n"
        "        signal.raise_signal(signal.SIGINT)\n        return gm.forward(*args)\n"
        "    return call"
    )
    before = sys.gettrace()
    ran = cells.run("%%dynamo -b slow --quiet\nw = [1]\nw.append(2)\ny = x + 1\nz = 2")
    assert isinstance(ran.error, KeyboardInterrupt)
    assert dynamo_ext.last_report().interrupted
    assert "dynamo_ext" not in ran.shown
    assert cells.names["w"] == [1, 2], "what stands above the graph has run"
    assert not {"y", "z"} & set(cells.names)
    assert sys.gettrace() is before


def test_unloading_leaves_nothing() -> None:
    with live("x = torch.arange(3.)") as cells:
        shell = cells.shell
        cells.well("%unload_ext dynamo_ext")
        names, inside = set(cells.names), set(dir(builtins))
        magics = {kind: set(found) for kind, found in shell.magics_manager.magics.items()}
        registry, matchers = (
            set(shell.magics_manager.registry),
            list(shell.Completer.custom_matchers),
        )
        events = {name: list(found) for name, found in shell.events.callbacks.items()}
        cells.well("%load_ext dynamo_ext")
        cells.well("%%dynamo -b eager\ny = x + 1\nprint('a break')\nz = y * 2")
        cells.run("%%dynamo -b eager\ny = x @ torch.ones(9, 9)")
        cells.well("%unload_ext dynamo_ext")
        assert {n for n in set(cells.names) - names if not n.startswith("_")} == {"y", "z"}
        assert not {n for n in cells.names if n.startswith(("__compiled", "__resume"))}
        assert set(dir(builtins)) == inside
        assert {k: set(v) for k, v in shell.magics_manager.magics.items()} == magics
        assert set(shell.magics_manager.registry) == registry
        assert list(shell.Completer.custom_matchers) == matchers
        assert {n: list(f) for n, f in shell.events.callbacks.items()} == events
        assert cells.run("%%dynamo\ny = 1").error is not None


def test_loading_again_works() -> None:
    with live("x = torch.arange(3.)") as cells:
        cells.well("%unload_ext dynamo_ext")
        cells.well("%load_ext dynamo_ext")
        assert cells.report("y = x + 1").graphs
        cells.well("%reload_ext dynamo_ext")
        assert cells.report("y = x + 1").graphs


def test_dynamic_and_static(cells: Live) -> None:
    for line, expected in (("--dynamic", 1), ("--static", 3)):
        with counting_compiles() as started:
            for size in (3, 5, 9):
                cells.well(f"x = torch.ones({size})")
                cells.report(f"y = x + 1  # {line}", f"-b eager {line}")
        assert len(started) == expected


def test_changed_flags_hold_for_the_same_text(cells: Live) -> None:
    cells.report("y = x + 1", "-b eager --dynamic")
    static = cells.report("y = x + 1", "-b eager --static")
    assert [op.shape for op in static.graphs[-1].operations if op.opcode == "call_function"] == [
        ("3",)
    ]


def test_options_reach_the_backend(cells: Live) -> None:
    report = cells.report("y = (x + 1).sin() * 2", "-b onnxrt --opt threads=1 --opt verify=off")
    assert report.fallbacks == ()
    assert report.graphs[0].ran_in_engine == report.graphs[0].normalised > 0


def test_profile_times_operations_and_changes_nothing_else(cells: Live) -> None:
    cells.well("import torch\nnet = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.Dropout())")
    cells.well("torch.manual_seed(1)\nplain = net(x)\ntorch.manual_seed(1)")
    ran = cells.well("%%dynamo -b aot_eager --profile -o r\ny = net(x)")
    (graph,) = cells.names["r"].graphs
    calls = [op for op in graph.operations if op.opcode.startswith("call_")]
    assert calls
    assert all(op.seconds > 0 for op in calls)
    assert graph.operation_seconds == pytest.approx(sum(op.seconds for op in calls))
    assert graph.calls == 1
    assert torch.equal(cells.names["y"], cells.names["plain"])
    assert ran.error is None
    cells.well("%%dynamo -b aot_eager --quiet -o again\nz = net(x)")
    assert not cells.names["again"].graphs[0].operation_seconds


def test_run_with_profile_times_what_was_compiled_before(cells: Live) -> None:
    cells.well("%%dynamo -b aot_eager --quiet\ny = x * 2")
    cells.well("%%dynamo run --quiet --profile -o r\ny = x * 2")
    assert cells.names["r"].graphs[0].operation_seconds > 0


def test_a_graph_that_cannot_be_timed_says_why_and_runs(
    cells: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    from dynamo_ext.measure import operation_profiler

    def refuse(*_: object) -> None:
        message = "no memory for a second copy"
        raise RuntimeError(message)

    monkeypatch.setattr(operation_profiler, "time_operations", refuse)
    cells.well("%%dynamo -b aot_eager --quiet --profile -o r\ny = x * 2")
    assert cells.names["r"].graphs[0].untimed == "RuntimeError: no memory for a second copy"
    assert cells.names["y"].tolist() == [0, 2, 4]


def test_another_magic_under_it_is_reporting_to_go_above(cells: Live) -> None:
    ran = cells.well("%%dynamo -b eager\n%%time\ny = x * 2")
    assert "put %%dynamo below %%time." in " ".join(ran.out.split())
    assert "Only tensor operations" not in ran.out
    ran = cells.well("%%dynamo -b eager\ny = 1\n%time z = 2")
    assert "put %%dynamo below" not in ran.out


def test_an_interrupt_while_torch_loads_acts_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow:
        def __init__(self, *_: object) -> None:
            signal.raise_signal(signal.SIGINT)
            self.loaded = True

    monkeypatch.setattr(workbench, "Workbench", Slow)
    magics = DynamoMagics.__new__(DynamoMagics)
    magics._workbench, magics._own_shell, magics._plain_runs = None, None, None
    with interruptible(), pytest.raises(KeyboardInterrupt) as raised:
        _ = magics.workbench
    assert magics.workbench.loaded
    assert raised.value._render_traceback_() == [
        "KeyboardInterrupt: stopped before the cell began."
    ]
