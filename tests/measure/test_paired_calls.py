"""Calls of a graph in its engine and in eager, in turn: which graphs, how many, at what price."""

from __future__ import annotations

import time
from unittest import mock

import pytest
import torch

import dynamo_ext
from dynamo_ext.analysis.speed import FEWEST_PAIRS, cell_gain
from dynamo_ext.capture.cells import runner
from dynamo_ext.measure import paired_calls
from dynamo_ext.measure.paired_calls import LEAD_IN_SECONDS, SHORT_PAIRS, PairedCalls
from tests.auto.conftest import Company
from tests.magics.shell import notebook, run_cell

SETUP = """
import torch
from torch import nn
torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 8), nn.GELU(), nn.Linear(8, 8)).eval()
x = torch.randn(4, 8)
"""

MINE = """
calls = []
def mine(graph, inputs):
    def run(*args):
        calls.append(1)
        return graph.forward(*args)
    return run
"""


@pytest.fixture
def cells(monkeypatch):
    monkeypatch.setattr(runner, "MachineLoad", Company)
    torch._dynamo.reset()
    with notebook() as shell:
        dynamo_ext.load_ipython_extension(shell)
        assert run_cell(shell, SETUP).error is None
        yield shell
    torch._dynamo.reset()


@pytest.fixture
def generous(monkeypatch):
    for shares in ("FIRST", "LATER"):
        monkeypatch.setattr(paired_calls, shares, (0.0, 1_000.0))


def report(shell, text, line="-b ts"):
    assert run_cell(shell, f"%%dynamo {line}\n{text}").error is None
    return dynamo_ext.last_report()


@pytest.fixture
def further(monkeypatch):
    """One entry for each further call."""
    made = []

    def call(_, run, args, **_alone):
        made.append(run)
        run(*args)
        return 1e-4

    monkeypatch.setattr(PairedCalls, "_seconds", call)
    return made


@pytest.mark.usefixtures("generous")
def test_a_graph_is_called_further_and_then_no_more(cells, further):
    with mock.patch.object(PairedCalls, "__call__"):
        # A first call may take too long to be a short one.
        report(cells, "y = model(x)")
    found = report(cells, "y = model(x)")
    (graph,) = found.graphs
    assert graph.calls == 1
    assert len(graph.pairs) == SHORT_PAIRS
    assert found.paired_seconds > 0
    assert found.run_seconds <= found.seconds - found.compile_seconds - found.paired_seconds
    engine, eager = further[0], further[-1]
    assert engine != eager
    assert further.count(eager) == SHORT_PAIRS + paired_calls._WARM
    led = further.count(engine) - SHORT_PAIRS
    assert led == pytest.approx(LEAD_IN_SECONDS / 1e-4, abs=1)
    timed = len(further)
    (again,) = report(cells, "y = model(x)").graphs
    assert again.pairs == graph.pairs
    assert len(further) == timed
    assert dynamo_ext.last_report().paired_seconds == 0.0


@pytest.mark.usefixtures("generous")
def test_pairs_of_the_run_that_compiled_count_until_there_are_others(cells, monkeypatch):
    took = [0.05]
    monkeypatch.setattr(PairedCalls, "_seconds", lambda *_: took[-1])
    graphs = [report(cells, "y = model(x)").graphs[0]]
    took.append(0.02)
    # No time for one more, then for all.
    monkeypatch.setattr(paired_calls, "AGAIN", 0.0)
    for shares in [(0.0, 0.0), (0.0, 1_000.0)]:
        monkeypatch.setattr(paired_calls, "FIRST", shares)
        graphs.append(report(cells, "y = model(x)").graphs[0])
    cold, still, warm = (graph.pairs for graph in graphs)
    assert cold == still == ((0.05, 0.05),) * paired_calls.MOST_PAIRS
    assert warm == ((0.02, 0.02),) * paired_calls.MOST_PAIRS


@pytest.mark.usefixtures("generous", "further")
def test_pairs_of_a_run_on_a_busy_machine_are_forgotten(cells, monkeypatch):
    monkeypatch.setattr(runner, "MachineLoad", lambda: Company(0.8))
    report(cells, "y = model(x)")
    found = report(cells, "y = model(x)")
    told = found.paired_seconds > 0, found.graphs[0].pairs, cell_gain(found)[:14]
    assert told == (True, (), "other programs")


@pytest.mark.usefixtures("generous", "further")
def test_a_size_that_grows_is_paired_early_and_late(cells):
    grows = """
def run(model):
    for size in range(2, 40):
        torch._dynamo.graph_break()
        last = model(torch.ones(size, 8))
    return last
last = run(model)
"""
    graphs = report(cells, grows).graphs
    (often,) = [graph for graph in graphs if graph.calls > paired_calls.SIZES[-1]]
    assert len(often.pairs) == SHORT_PAIRS * len(paired_calls.SIZES)


@pytest.mark.usefixtures("generous")
def test_a_graph_that_changes_tensors_and_has_weights_in_its_engine_is_called_once(cells, further):
    text = "with torch.no_grad(): nn.BatchNorm1d(8)(model(x))"
    assert [graph.pairs for graph in report(cells, text).graphs] == [()]
    assert not further


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("backend", ["ts", "onnxrt", "inductor"])
def test_changed_tensors_and_random_numbers_are_as_without(cells, backend):
    text = "x.add_(1); y = torch.dropout(norm(model(x)), 0.5, True); z = torch.rand(3)"
    found = []
    for pairs in (mock.Mock(), PairedCalls.__call__):
        run_cell(cells, SETUP + "norm = nn.BatchNorm1d(8)")
        with mock.patch.object(PairedCalls, "__call__", pairs):
            graphs = report(cells, text, f"-b {backend}").graphs
        found.append([cells.user_ns[n] for n in "xz"] + [*cells.user_ns["norm"].buffers()])
    assert all(graph.pairs for graph in graphs)
    torch.testing.assert_close(*found)
    cells.user_ns["y"].sum().backward()


@pytest.mark.usefixtures("generous")
@pytest.mark.parametrize("backend", ["onnxrt", "inductor"])
def test_a_step_of_training_is_timed_whole_and_leaves_all_as_it_was(cells, backend):
    step = "y = torch.dropout(norm(model(x)), 0.5, True); y.sum().backward(); print(end='')"
    found, hooked = [], []
    for pairs in (mock.Mock(), PairedCalls.__call__):
        run_cell(cells, SETUP + "norm = nn.BatchNorm1d(8)")
        names = cells.user_ns
        names["model"][0].weight.register_hook(hooked.append)
        with mock.patch.object(PairedCalls, "__call__", pairs):
            graphs = report(cells, f"for _ in range(3):\n    {step}", f"-b {backend}").graphs
        found.append([torch.rand(3), *names["norm"].buffers(), names["model"][0].weight.grad])
    torch.testing.assert_close(*found)
    assert len(hooked) == 6
    trained = [graph for graph in graphs if graph.backward_seconds]
    assert max(len(graph.pairs) for graph in trained) >= FEWEST_PAIRS


@pytest.mark.usefixtures("generous")
def test_an_operator_that_is_not_torchs_runs_as_often_as_without(cells):
    ran = []
    library = torch.library.Library("dx_pairs", "DEF")
    try:
        library.define("told(Tensor x) -> Tensor")
        library.impl("told", lambda x: (ran.append(1), x + 1)[1], "CompositeExplicitAutograd")
        torch.library.register_fake("dx_pairs::told", torch.empty_like, lib=library)
        (graph,) = report(cells, "y = torch.ops.dx_pairs.told(x)").graphs
    finally:
        library._destroy()
    assert graph.pairs == ()
    # The call itself, and eager's for its check.
    assert len(ran) == 2


@pytest.mark.usefixtures("generous")
def test_a_function_of_the_users_is_called_as_often_as_without(cells):
    assert run_cell(cells, MINE).error is None
    report(cells, "y = model(x)", "-b mine")
    assert len(cells.user_ns["calls"]) == 1


@pytest.mark.usefixtures("generous")
def test_eager_is_not_timed_beside_itself(cells):
    (graph,) = report(cells, "y = model(x)", "-b eager").graphs
    assert graph.pairs == ()
    assert graph.unpaired == "graphs of eager are not called again"


@pytest.mark.usefixtures("generous")
def test_a_quiet_cell_has_pairs_too(cells):
    (graph,) = report(cells, "y = model(x)", "-b ts --quiet").graphs
    assert graph.pairs


@pytest.mark.usefixtures("generous")
def test_long_calls_are_timed_in_turn(cells, further, monkeypatch):
    monkeypatch.setattr(paired_calls, "LEAD_IN_SECONDS", 0.0)
    (graph,) = report(cells, "y = model(x)").graphs
    assert len(graph.pairs) == paired_calls.MOST_PAIRS
    engine, eager = further[:2]
    assert further == [engine, eager, eager, engine] * (paired_calls.MOST_PAIRS // 2)


def test_pairs_take_a_share_of_the_run_at_most(cells, monkeypatch):
    taken, real = [0.0], PairedCalls._in_a_row

    def timed(*args):
        started = time.perf_counter()
        found = real(*args)
        taken.append(time.perf_counter() - started)
        return found

    monkeypatch.setattr(PairedCalls, "_in_a_row", timed)
    found = report(cells, "for _ in range(20):\n    y = model(x)\n    print(end='')")
    calls = sum(graph.run_seconds for graph in found.graphs)
    # The last calls may take longer than those before them.
    spent = found.paired_seconds - max(taken)
    compiling, calling = paired_calls.FIRST
    assert spent <= max(calling * calls, paired_calls.LEAST) + compiling * found.compile_seconds


@pytest.mark.usefixtures("generous")
def test_an_error_of_a_further_call_is_no_error_of_the_cells(cells, monkeypatch):
    tried = []

    def fail(*_, **__):
        tried.append(1)
        raise RuntimeError

    monkeypatch.setattr(PairedCalls, "_seconds", fail)
    (graph,) = report(cells, "for _ in range(3):\n    y = model(x)\n    print(end='')").graphs
    assert (graph.pairs, graph.calls, len(tried)) == ((), 3, 1)


def test_gradients_are_as_without(cells):
    run_cell(cells, "model.train(); (model(x) ** 2).sum().backward()")
    expected = [p.grad.clone() for p in cells.user_ns["model"].parameters()]
    run_cell(cells, "model.zero_grad()")
    report(cells, "loss = (model(x) ** 2).sum()\nloss.backward()", "-b ts")
    for expected_one, parameter in zip(expected, cells.user_ns["model"].parameters(), strict=True):
        torch.testing.assert_close(parameter.grad, expected_one)


@pytest.mark.parametrize(("backend", "taken"), [("ts", True), ("inductor", False)])
def test_what_replays_on_cuda_is_called_once(backend, taken):
    """The results of a CUDA graph lie where its next replay writes."""
    entry = mock.Mock(backend=backend, mutates=False, draws=False)
    graph = torch.fx.symbolic_trace(lambda x: x + 1)
    given = mock.Mock(spec=torch.Tensor, is_cuda=True)
    assert (not paired_calls._why_not(entry, graph, [given])) is taken
    assert not paired_calls._why_not(entry, graph, [torch.ones(1)])
