"""What two runs are compared by."""

from __future__ import annotations

import torch

import dynamo_ext
from dynamo_ext.widgets.runs import numbers, things
from tests.analysis.test_advice import branches

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def report_of(function, *calls, backend="eager"):
    torch._dynamo.reset()
    fast = dynamo_ext.optimize(backend)(function)
    for args in calls:
        fast(*args)
    return fast.report()


def chooses(x):
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y) * 3


def changes(before, after):
    """What is gone and what is new, by kind."""
    had, has = things(before), things(after)
    return {kind: (had[kind] - has[kind], has[kind] - had[kind]) for kind in had}


def test_a_break_that_is_gone_is_told_with_its_graphs():
    before, after = report_of(branches, (X,)), report_of(chooses, (X,))
    assert (numbers(before)["Graphs"], numbers(after)["Graphs"]) == (2, 1)
    assert (numbers(before)["Breaks"], numbers(after)["Breaks"]) == (1, 0)
    found = changes(before, after)
    gone = {"`if y.sum() > 0`: its `if` asks for the value of a tensor": 1}
    assert found["Breaks"] == (gone, {})
    gone, new = found["Graphs"]
    assert len(gone) == 2
    assert next(iter(new)).startswith("6 operations (mul, sum, gt, add, …)")


def test_a_recompile_and_its_guards_are_new():
    found = changes(report_of(chooses, (X,)), report_of(chooses, (X,), (X.double(),)))
    assert "dtype mismatch" in next(iter(found["Recompiles"][1]))
    assert any("float64" in words for words in found["Guarded conditions"][1])


def test_what_a_backend_refuses_is_new():
    def refuses(graph, inputs):
        msg = "no"
        raise RuntimeError(msg)

    after = report_of(chooses, (X,), backend=refuses)
    assert changes(report_of(chooses, (X,)), after)["Fallbacks"][1] == {"lower: graph, no": 1}
