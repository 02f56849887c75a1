"""Backward passes of captured graphs, which autograd runs."""

from __future__ import annotations

import torch

import dynamo_ext

NOTEBOOK = "x = torch.ones(3, requires_grad=True)"
CELL = "loss = (x.sin() * 2).sum()\nloss.backward()"


def test_a_compiled_backward_pass_is_told_of(cells):
    first, again = (cells.report(CELL, "-b aot_eager") for _ in range(2))
    (graph,) = again.graphs
    assert 0 < graph.backward_seconds < again.seconds
    assert not graph.backward_untimed
    assert again.compile_seconds == 0
    assert first.graphs[0].backward_seconds > 0


def test_what_compiling_a_backward_graph_takes_is_compiling(cells):
    report = cells.report(CELL, "-b aot_eager")
    (frame,) = report.frames
    assert report.compile_seconds > frame.compile_seconds


def test_one_without_a_backward_pass_has_no_such_time(cells):
    report = cells.report("y = x.sin() * 2", "-b aot_eager")
    (graph,) = report.graphs
    assert (graph.backward_seconds, graph.backward_untimed) == (0.0, False)
    report = cells.report("with torch.no_grad():\n    y = x.sin() * 2")
    assert not report.graphs[0].backward_untimed


def test_of_a_graph_that_runs_as_it_is_they_cannot_be_told(cells):
    (graph,) = cells.report(CELL).graphs
    assert (graph.backward_seconds, graph.backward_untimed) == (0.0, True)


def test_a_backward_pass_after_the_run_is_not_in_its_report():
    def doubled(x):
        return x.sin() * 2

    weight = torch.ones(3, requires_grad=True)
    fast = dynamo_ext.optimize("aot_eager")(doubled)
    for _ in range(2):
        fast(weight).sum().backward()
    report = fast.report()
    assert report.graphs[0].backward_seconds == 0.0
    assert torch.allclose(weight.grad, 4 * torch.ones(3).cos())


def test_those_of_a_graph_s_parts_are_summed(cells):
    text = "h = (x.sin() * 2).exp() + x\nloss = (h * h).cos().sum() / 3\nloss.backward()"
    for _ in range(2):
        report = cells.report(text, "-b aot_eager")
    (graph,) = report.graphs
    assert 0 < graph.backward_seconds < report.seconds
    assert not graph.backward_untimed
