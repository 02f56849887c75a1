"""Tables on a page as narrow as a notebook beside a file browser."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records import Guard, Report
from dynamo_ext.widgets import comparison, guards
from dynamo_ext.widgets.markup import element
from dynamo_ext.widgets.style import STYLE
from tests.widgets.comparisons import COMPARISONS

WIDTH = 700
NAME = "__optimizer_140292008528640_140292008529999_c40"


@pytest.fixture
def narrow(page):
    before = page.viewport_size
    page.set_viewport_size({"width": WIDTH, "height": 900})
    yield page
    page.set_viewport_size(before)


def right_edges(page, within):
    """How far right each line of these elements' text goes."""
    lines = "all => all.flatMap(e => [...e.getClientRects()].map(r => r.right))"
    return page.locator(within).evaluate_all(lines)


def test_a_remedy_is_read_without_scrolling(narrow):
    record = COMPARISONS["full"]
    rows = [
        dataclasses.replace(
            each,
            reason="torch_tensorrt is not installed. Nor does torch see a CUDA device.",
            remedy='pip install "torch-tensorrt==2.13.*", on an NVIDIA GPU.',
        )
        if each.outcome == "unavailable"
        else each
        for each in record.candidates
    ]
    shown = comparison.html(dataclasses.replace(record, candidates=tuple(rows)))
    narrow.set_content(str(shown))
    assert "torch-tensorrt" in narrow.locator(".dx-why code").first.inner_text()
    assert max(right_edges(narrow, ".dx-why > *, .dx-why code")) < WIDTH


def test_a_long_name_leaves_room_for_what_is_said_of_it(narrow):
    made = tuple(
        Guard("0/0", name, f"G['{name}']()", "WEAKREF_ALIVE", f"`{name}()` must stay alive", ())
        for name in ("x", NAME)
    )
    report = Report("optimize", "eager", "cell", None, 1.0, 0.5, guards=made)
    narrow.set_content(str(element("div", STYLE, guards.html(report), class_="dx")))
    cells = narrow.locator("td:has(> b)")
    assert cells.last.inner_text().strip() == NAME
    assert cells.last.bounding_box()["width"] < WIDTH / 3
    code = narrow.locator("td > code:only-child")
    assert code.first.bounding_box()["height"] < 20, "a short name stays on one line"
    assert code.last.bounding_box()["width"] > 90
