"""Two runs side by side."""

from __future__ import annotations

import torch

import dynamo_ext
from dynamo_ext.analysis.report_diff import difference

X = torch.linspace(-1, 1, 12).reshape(3, 4)


def report_of(function, *calls, backend="eager"):
    torch._dynamo.reset()
    fast = dynamo_ext.optimize(backend)(function)
    for args in calls:
        fast(*args)
    return fast.report()


def branches(x):
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y * 3


def chooses(x):
    y = x * 2
    return torch.where(y.sum() > 0, y + 1, y) * 3


def figures(found):
    return {figure.name: (figure.before, figure.after) for figure in found.figures}


def kinds(found):
    return {each.kind: each for each in found.changed}


def test_a_break_that_is_gone_is_told_with_its_graphs():
    found = difference(report_of(branches, (X,)), report_of(chooses, (X,)))
    assert figures(found)["Graphs"] == (2, 1)
    assert figures(found)["Breaks"] == (1, 0)
    ((gone, count),) = kinds(found)["Breaks"].gone
    assert gone == "`if y.sum() > 0`: its `if` asks for the value of a tensor"
    assert count == 1
    assert not kinds(found)["Breaks"].new
    assert len(kinds(found)["Graphs"].gone) == 2
    assert kinds(found)["Graphs"].new[0][0].startswith("6 operations (mul, sum, gt, add, …)")


def test_the_same_run_differs_in_seconds_at_most():
    report = report_of(chooses, (X,))
    found = difference(report, report)
    assert not found.changed
    assert not found.backend_changed
    assert all(before == after for before, after in figures(found).values())


def test_a_recompile_and_its_guards_are_new():
    before = report_of(chooses, (X,))
    found = difference(before, report_of(chooses, (X,), (X.double(),)))
    assert "dtype mismatch" in kinds(found)["Recompiles"].new[0][0]
    assert any("float64" in words for words, _ in kinds(found)["Guarded conditions"].new)


def test_another_backend_is_said():
    def refuses(graph, inputs):
        msg = "no"
        raise RuntimeError(msg)

    after = report_of(chooses, (X,), backend=refuses)
    found = difference(report_of(chooses, (X,)), after)
    assert found.backend_changed
    assert kinds(found)["Fallbacks"].new == (("lower: graph, no", 1),)
