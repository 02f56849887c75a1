"""What a person sees in JupyterLab: the widget of a run, and what stays of it afterwards."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES

NOTEBOOK = "toy.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch

queries, keys = torch.randn(2, 64, 64)


def toy_example(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b
"""
DYNAMO_CELL = """\
%%dynamo -b onnxrt --profile -o report
scores = (queries @ keys.T / 8).softmax(dim=-1)
weights = toy_example(scores, queries @ queries.T)
mixed = weights @ keys
mixed.shape
"""
BESIDE = "len(report.graphs)"


@pytest.fixture(scope="module")
def ran(lab_page):
    """The notebook, opened and run; its page."""
    lab_page.open_with(NOTEBOOK, SET_UP, DYNAMO_CELL, BESIDE, run=3)
    return lab_page


def test_the_cell_shows_its_value_and_one_report(ran):
    outputs = ran.outputs(1)
    expect(outputs.locator(".dx-live")).to_be_visible()
    expect(outputs.get_by_text("torch.Size([64, 64])", exact=True)).to_be_visible()
    # The static form is in the notebook as well, and is not shown beside the widget.
    expect(outputs.locator(".dx-static")).to_be_hidden()
    graphs = ran.outputs(2).locator(".jp-OutputArea-output")
    assert int(graphs.inner_text()) >= 2


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_every_tab_opens_and_says_something(ran, screenshots, theme):
    ran.theme(f"JupyterLab {theme}")
    view = ran.outputs(1).locator(".dx-live")
    tabs = view.locator(".lm-TabBar-tab")
    expect(tabs).to_have_count(len(TITLES))
    for index, title in enumerate(TITLES):
        tabs.nth(index).click()
        expect(tabs.nth(index)).to_contain_text(title)
        pane = view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")
        expect(pane).to_have_count(1)
        expect(pane.get_by_text("drawn by the kernel")).to_have_count(0)
        expect(pane).not_to_be_empty()
        assert pane.inner_text().strip(), title
        view.screenshot(path=screenshots / f"{index}-{title.lower()}-{theme.lower()}.png")
    tabs.nth(TITLES.index("Code")).click()
    ran.cell(1).screenshot(path=screenshots / f"cell-{theme.lower()}.png")
    tabs.first.click()
    ran.outputs(1).screenshot(path=screenshots / f"report-{theme.lower()}.png")


def test_a_step_opens_the_part_that_shows_it(ran):
    view = ran.outputs(1).locator(".dx-live")
    view.locator(".lm-TabBar-tab").first.click()
    view.get_by_role("button", name="Open Code").click()
    opened = view.locator(".lm-TabBar-tab.lm-mod-current")
    expect(opened).to_contain_text("Code")


def test_a_graph_is_searched_and_taken_away(ran, screenshots):
    view = ran.outputs(1).locator(".dx-live")
    view.locator(".lm-TabBar-tab").nth(TITLES.index("Graphs")).click()
    box = view.get_by_placeholder(re.compile("operator, name or shape"))
    box.fill("softmax")
    box.press("Enter")
    expect(view.get_by_text(re.compile(r"1 match, with neighbours"))).to_be_visible()
    node = view.locator(".dx-nodes button").first
    node.click()
    expect(node).to_be_focused()
    told = node.evaluate("each => getComputedStyle(each, '::after').content")
    assert node.get_attribute("title") in told
    timed = view.locator(".dx-nodes button[aria-label*='in eager by itself']")
    expect(timed).not_to_have_count(0)
    view.screenshot(path=screenshots / "node.png")
    width = node.bounding_box()["width"]
    view.get_by_label("Zoom").select_option("50 %")
    expect(view.locator("[style*='--dx-zoom: 0.5']")).to_be_visible()
    assert node.bounding_box()["width"] == pytest.approx(width / 2, abs=2)
    node.click()
    view.screenshot(path=screenshots / "zoomed.png")
    with ran.page.expect_download() as saved:
        view.get_by_role("link", name="Download g0.py").click()
    assert "class GraphModule" in saved.value.path().read_text(encoding="utf-8")


def test_without_a_kernel_the_static_report_stays(ran, screenshots):
    ran.theme("JupyterLab Light")
    ran.reload_without_kernel(NOTEBOOK)
    outputs = ran.outputs(1)
    static = outputs.locator(".dx-static")
    expect(static).to_be_visible()
    expect(static).to_contain_text("toy_example")
    expect(outputs.get_by_text("Error displaying widget")).to_be_hidden()
    outputs.screenshot(path=screenshots / "static-light.png")
