"""``dynamo_ext.explain``: a call's report with the times of its operations."""

from __future__ import annotations

import pytest
import torch

import dynamo_ext
from dynamo_ext.errors import OptionError


def test_a_function_and_a_module_are_explained_with_times():
    net, x = torch.nn.Linear(8, 8), torch.randn(2, 8)
    for target in (net, lambda value: torch.relu(net(value))):
        report = dynamo_ext.explain(target, (x,))
        (graph,) = report.graphs
        assert graph.operation_seconds > 0
        assert report.backend == "eager"
        assert report.profile_seconds > 0


def test_a_backend_that_leaves_an_operation_out_is_told_what_that_costs():
    def running(x):
        return torch.cummax(torch.relu(x) * 2, 1).values + 1

    report = dynamo_ext.explain(running, (torch.randn(64, 256),), backend="onnxrt")
    assert report.graphs[0].operation_seconds > 0
    from dynamo_ext.analysis.advice import advise

    steps = [step for step in advise(report) if step.topic == "unsupported"]
    assert steps
    assert "of their time in eager" in steps[0].evidence


def test_arguments_that_are_no_sequence_are_refused_in_a_sentence():
    for args in (torch.ones(2), "onnxrt", torch.nn.Linear(2, 2)):
        with pytest.raises(OptionError, match=r"not a sequence of arguments.*\(model, \(x,\)\)"):
            dynamo_ext.explain(torch.relu, args)
        with pytest.raises(OptionError, match=r"not a sequence of arguments.*\(model, \(x,\)\)"):
            dynamo_ext.compare(torch.relu, args)
    for each in (dynamo_ext.explain, dynamo_ext.compare):
        with pytest.raises(OptionError, match="cannot be called"):
            each(3)
        with pytest.raises(OptionError, match="Linear is a class"):
            each(torch.nn.Linear, (torch.ones(2),))


def test_the_call_s_own_error_is_raised():
    with pytest.raises(RuntimeError, match="shapes cannot be multiplied"):
        dynamo_ext.explain(torch.nn.Linear(8, 8), (torch.ones(2, 3),))
