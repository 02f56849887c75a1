"""A report of a deep model in JupyterLab: it opens, folds, is searched, and stays small."""

from __future__ import annotations

import json
import re

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES
from tests.browser.servers import CELL_MILLISECONDS

NOTEBOOK = "deep.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = nn.TransformerEncoder(layer, 24, enable_nested_tensor=False)
x = torch.randn(2, 16, 64)
"""
CELL = "%%dynamo -b eager\ny = model(x)\n"
LOOKS = (("Light", 1400), ("Dark", 900))


@pytest.fixture
def view(ran):
    return ran.outputs(1).locator(".dx-live")


def opened(view, title):
    view.locator(".lm-TabBar-tab").nth(TITLES.index(title)).click()
    return view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")


def test_parts_are_bounded(view):
    for title, most in (("Graphs", 900), ("Guards", 900)):
        pane = opened(view, title)
        expect(pane.get_by_label("Find")).to_be_visible(timeout=CELL_MILLISECONDS)
        assert pane.bounding_box()["height"] < most


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_a_click_opens_one_of_24_layers(ran, view, screenshots, theme, width):
    ran.theme(f"JupyterLab {theme}")
    ran.page.set_viewport_size({"width": width, "height": 1400})
    pane = opened(view, "Graphs")
    box = pane.locator("summary[title^='TransformerEncoderLayer × 24: 336 operations']")
    inside = pane.get_by_text("Drawn is the first of 24 that are alike: Find shows another.")
    expect(inside).to_be_hidden()
    box.click()
    expect(inside).to_be_visible()
    expect(pane.get_by_text("multi_head_attention_f…").first).to_be_visible()
    view.screenshot(path=screenshots / f"layer-{theme.lower()}-{width}.png")
    box.click()
    expect(inside).to_be_hidden()


def test_a_layer_is_searched_by_its_path(view):
    pane = opened(view, "Graphs")
    pane.get_by_label("Find").fill("layers.7.self_attn")
    pane.get_by_label("Find").press("Enter")
    expect(pane.get_by_text(re.compile(r"\d+ matches, with neighbours"))).to_be_visible()
    node = pane.locator(".dx-nodes button[aria-label*='model.layers.7.self_attn']").first
    expect(node).to_be_visible()
    pane.get_by_label("Find").fill("")
    pane.get_by_label("Find").press("Enter")


@pytest.mark.parametrize(("theme", "width"), LOOKS)
def test_guards_are_by_module_with_a_search(ran, view, screenshots, theme, width):
    ran.theme(f"JupyterLab {theme}")
    ran.page.set_viewport_size({"width": width, "height": 1400})
    pane = opened(view, "Guards")
    group = pane.locator("summary", has_text="model.layers.*.norm1")
    expect(group).to_contain_text("96 guards")
    group.click()
    table = pane.get_by_role("table", name="Guards on model.layers.*.norm1")
    expect(table).to_contain_text("model.layers.*.norm1.eps must stay 1e-05")
    pane.locator("summary", has_text="hold as long as no module and no library is changed").click()
    heights = pane.locator("details[open] .dx-wide").evaluate_all(
        "all => all.map(each => each.getBoundingClientRect().height)"
    )
    assert max(heights) <= 440
    view.screenshot(path=screenshots / f"guards-{theme.lower()}-{width}.png")
    pane.get_by_label("Find").fill("layers.7.norm1")
    pane.get_by_label("Find").press("Enter")
    expect(pane.get_by_text(re.compile(r"14 matches of 2,\d+\."))).to_be_visible()
    expect(pane.get_by_text("model.layers.7.norm1.eps must stay 1e-05")).to_be_visible()
    view.screenshot(path=screenshots / f"guards-found-{theme.lower()}-{width}.png")
    pane.get_by_label("Find").fill("")
    pane.get_by_label("Find").press("Enter")
    expect(group).to_be_visible()


def test_what_stays_in_the_notebook_is_small(ran, screenshots):
    ran.theme("JupyterLab Light")
    ran.reload_without_kernel(NOTEBOOK)
    saved = json.loads((ran.lab.folder / NOTEBOOK).read_text(encoding="utf-8"))
    found = [each["data"] for each in saved["cells"][1]["outputs"] if "data" in each]
    shown = ["".join(data["text/html"]) for data in found if "text/html" in data]
    html = max(shown, key=len)
    assert len(html.encode()) < 150_000
    static = ran.outputs(1).locator(".dx-static")
    expect(static).to_be_visible()
    expect(static).to_contain_text("more operations.")
    ran.outputs(1).screenshot(path=screenshots / "large-static.png")
