"""Tables on a page as narrow as a notebook beside a file browser."""

from __future__ import annotations

import dataclasses

import pytest

from dynamo_ext.records.capture import Guard
from dynamo_ext.records.graph import Graph, Partition
from dynamo_ext.records.report import Report
from dynamo_ext.widgets.comparison import static
from dynamo_ext.widgets.html.markup import STYLE, element
from dynamo_ext.widgets.report import graphs, guards
from dynamo_ext.widgets.runs import history
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
    shown = static.html(dataclasses.replace(record, candidates=tuple(rows)))
    narrow.set_content(str(shown))
    assert "torch-tensorrt" in narrow.locator(".dx-why code").first.inner_text()
    assert max(right_edges(narrow, ".dx-why > *, .dx-why code")) < WIDTH


def test_why_a_part_stays_in_eager_is_read_without_scrolling(narrow):
    named = ("aten.native_layer_norm.default", "aten.addmm.default", "aten._softmax.default")
    parts = (
        Partition("inference_eager_0", "eager", 3, named, "It draws random numbers, which stay."),
        Partition("inference_0", "onnxrt", 126, named * 2, frozen=96, lower_seconds=0.817),
    )
    made = Graph("g0", "0/0", "onnxrt", (), "", 1.0, compiled_now=True, calls=1, run_seconds=1.0)
    made = dataclasses.replace(made, partitions=parts)
    report = Report("optimize", "onnxrt", "cell", None, 1.0, 0.5, graphs=(made,))
    shown = element("div", STYLE, graphs.partitions(report, made), class_="dx")
    narrow.set_content(str(shown))
    assert "stay." in narrow.locator("td").all_inner_texts()[5]
    assert max(right_edges(narrow, "td")) < WIDTH


def test_a_number_and_its_unit_stay_on_one_line(narrow):
    made = Report("optimize", "tvm_meta_schedule", "Cell In[12]", None, 75.046, 75.0, error="E")
    narrow.set_content(str(history([made]).html()))
    compiled = narrow.locator("td", has_text="1 min 15 s")
    texts = "cell => { const r = document.createRange(); r.selectNodeContents(cell);"
    assert compiled.evaluate(f"{texts} return r.getClientRects().length; }}") == 1


def test_a_long_name_leaves_room_for_what_is_said_of_it(narrow):
    made = tuple(
        Guard("0/0", name, f"G['{name}']()", "WEAKREF_ALIVE", subject=f"{name}()")
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
