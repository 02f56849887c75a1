"""Frames of earlier runs that still run eagerly, and those that are reached no more."""

from __future__ import annotations

import torch

import dynamo_ext

NOTEBOOK = """
x = torch.ones(3, 4)
def inner(x):
    for step in range(2):
        x = x * 2
        print(step)
    return x
def whole(x):
    return x.sin() * 2
class Found:
    def embed(self, x):
        h = x.sin() * 2
        if h.sum().item() == 0:
            raise ValueError
        return h / torch.from_numpy(h.numpy() + 1)
    def __call__(self, x):
        return self.embed(x) + 1
class Mended(Found):
    def embed(self, x):
        h = x.sin() * 2
        return h / (h + 1)
"""


def breaks(cells, text):
    cells.well(text)
    return {(b.stack[-1].code, b.reason) for b in dynamo_ext.last_report().breaks}


def test_a_second_run_tells_of_every_break_again(cells):
    cells.well("m = Found()")
    cell = "%%dynamo -b eager --quiet\ny = m(x)"
    first = breaks(cells, cell)
    assert len(first) >= 3
    lines = {code for code, _ in first}
    assert {code for code, _ in breaks(cells, cell)} == lines


def test_what_was_mended_is_told_no_more(cells):
    cells.well("m = Found()")
    cell = "%%dynamo -b eager --quiet\ny = m(x)"
    assert breaks(cells, cell)
    cells.well("m = Mended()")
    for _ in range(2):
        assert breaks(cells, cell) == set()
        assert not dynamo_ext.last_report().fallbacks
    cells.well("m = Found()")
    assert breaks(cells, cell)


def test_a_skipped_function_stands_while_it_is_called(cells):
    cells.well("f = inner")
    cell = "%%dynamo -b eager --quiet\ny = f(x) + 1"
    for _ in range(2):
        cells.run(cell)
        (fallback,) = dynamo_ext.last_report().fallbacks
        assert fallback.stage == "capture"
    cells.well("f = whole")
    cells.well(cell)
    assert not dynamo_ext.last_report().fallbacks


def test_what_a_skipped_function_calls_stands_too(cells):
    cells.well(
        "def outer(x):\n    for i in range(2):\n        print(i)\n        x = inner(x)\n    return x"
    )
    cell = "%%dynamo -b eager --quiet\ny = outer(x) + 1"
    found = []
    for _ in range(2):
        cells.run(cell)
        found.append(sorted(f.subject for f in dynamo_ext.last_report().fallbacks))
    assert len(found[0]) == 2
    assert found[0] == found[1]


def test_a_skipped_function_is_told_of_in_other_cells_too(cells):
    first = cells.report("y = inner(x) + 1")
    (fallback,) = first.fallbacks
    for text in ("z = inner(x) * 3", "z = whole(x)\nprint(inner(z))"):
        (again,) = cells.report(text).fallbacks
        assert (again.message, again.line) == (fallback.message, fallback.line)
    assert not cells.report("z = whole(x) * 3").fallbacks


def test_a_function_defined_anew_has_nothing_left_standing(cells):
    assert cells.report("y = inner(x) + 1").fallbacks
    cells.well("def inner(x):\n    return x * 2")
    assert not cells.report("z = inner(x) * 3").fallbacks


def test_after_a_reset_nothing_stands(cells):
    cells.report("y = inner(x) + 1")
    cells.well("%dynamo reset")
    cells.well("inner = whole")
    assert not cells.report("z = inner(x) * 3").fallbacks


def looping(x):
    for _ in range(2):
        x = x * 2
        torch._dynamo.graph_break()
    return x


def test_a_session_tells_of_what_an_earlier_one_met():
    def reports():
        for _ in range(2):
            fast = dynamo_ext.optimize("eager")(looping)
            yield fast.report()
            fast(torch.ones(3))
            yield fast.report()

    before, first, idle, again = reports()
    assert not before.fallbacks
    assert not idle.fallbacks, "it has not been called"
    assert [f.message for f in again.fallbacks] == [f.message for f in first.fallbacks]
    assert again.fallbacks
