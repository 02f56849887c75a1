"""The window on a drawing: the wheel with Ctrl zooms, a drag moves it, a list has sizes and Fit."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES
from tests.browser.test_accessibility import findings

NOTEBOOK = "drawing.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch
from torch import nn

layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True)
model = nn.Sequential(nn.Linear(64, 64), nn.TransformerEncoder(layer, 6), nn.Linear(64, 2))
x = torch.randn(2, 16, 64)
"""
CELL = "%%dynamo -b eager --profile\ny = model(x)\n"


@pytest.fixture
def pane(ran):
    view = ran.outputs(1).locator(".dx-live")
    view.locator(".lm-TabBar-tab").nth(TITLES.index("Graphs")).click()
    shown = view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")
    shown.locator(".widget-toggle-button", has_text="Drawing").click()
    return shown


@pytest.fixture
def canvas(ran, pane):
    """The window on all nodes, which are more than it shows."""
    zoomed(pane, "100 %")
    pane.get_by_label("Fold modules").uncheck()
    found = pane.locator(".dx-canvas")
    expect(found.locator(".dx-fold")).to_have_count(0)
    expect(found.locator("button").nth(60)).to_be_attached()
    found.scroll_into_view_if_needed()
    yield found
    pane.get_by_label("Fold modules").check()
    expect(found.locator(".dx-fold")).not_to_have_count(0)


def zoomed(pane, size):
    # The focus is what gives the list its script.
    pane.get_by_label("Zoom").focus()
    pane.get_by_label("Zoom").select_option(size)


def scrolled(canvas):
    return canvas.evaluate("each => [each.scrollLeft, each.scrollTop]")


def middle(canvas):
    box = canvas.bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_the_wheel_zooms_with_ctrl_alone(ran, pane, canvas):
    node = canvas.locator("button").first
    width = node.bounding_box()["width"]
    x, y = middle(canvas)
    canvas.evaluate("each => { each.scrollTop = 400; }")
    beneath = f"document.elementFromPoint({x}, {y})?.title"
    named = ran.page.evaluate(beneath)
    ran.page.mouse.move(x, y)
    ran.page.keyboard.down("Control")
    ran.page.mouse.wheel(0, -100)
    ran.page.keyboard.up("Control")
    expect(pane.get_by_label("Zoom")).to_have_value("1")
    assert pane.locator("select option:checked").inner_text() == "128 %"
    assert node.bounding_box()["width"] == pytest.approx(1.284 * width, abs=2)
    assert ran.page.evaluate(beneath) == named, "what is under the pointer stays there"
    pane.get_by_label("Zoom").select_option("Fit")
    pane.get_by_label("Zoom").select_option("128 %")
    assert node.bounding_box()["width"] == pytest.approx(1.284 * width, abs=2)
    canvas.evaluate("each => { each.scrollTop = 400; }")
    before = scrolled(canvas)
    ran.page.mouse.wheel(0, 100)
    ran.page.wait_for_function(
        "([each, top]) => each.scrollTop > top", arg=[canvas.element_handle(), before[1]]
    )
    assert node.bounding_box()["width"] == pytest.approx(1.284 * width, abs=2)


def test_a_drag_moves_the_drawing(ran, canvas):
    x, y = middle(canvas)
    ran.page.mouse.move(x, y)
    ran.page.mouse.down()
    ran.page.mouse.move(x, y - 50)
    ran.page.mouse.move(x, y - 150)
    ran.page.mouse.up()
    assert scrolled(canvas)[1] == pytest.approx(150, abs=1)
    ran.page.mouse.move(x, y)
    assert scrolled(canvas)[1] == pytest.approx(150, abs=1), "no button is down"


def test_a_drag_that_begins_on_a_box_does_not_open_it(ran, pane):
    box = pane.locator("summary[title^='TransformerEncoderLayer × 6']")
    inside = pane.get_by_text("Drawn is the first of 6 that are alike")
    box.scroll_into_view_if_needed()
    corner = box.bounding_box()
    ran.page.mouse.move(corner["x"] + 40, corner["y"] + 10)
    ran.page.mouse.down()
    ran.page.mouse.move(corner["x"] + 20, corner["y"] + 30, steps=4)
    ran.page.mouse.up()
    expect(inside).to_be_hidden()
    box.click()
    expect(inside).to_be_visible()
    box.click()


def test_fit_shows_all_of_it_and_is_had_by_keyboard(ran, pane, canvas):
    zoom = pane.get_by_label("Zoom")
    zoom.focus()
    zoom.press("Home")
    expect(zoom).to_have_value("0")
    nodes = canvas.locator(".dx-nodes").first.bounding_box()
    room = canvas.bounding_box()
    assert nodes["height"] <= room["height"]
    assert nodes["width"] <= room["width"]


def test_what_is_drawn_next_is_zoomed_alike(pane, canvas):
    zoomed(pane, "50 %")
    width = canvas.locator("button").first.bounding_box()["width"]
    pane.get_by_label("Show parameters").check()
    expect(pane.get_by_text("parameters folded")).to_have_count(0)
    assert canvas.locator("button").first.bounding_box()["width"] == pytest.approx(width, abs=1)
    pane.get_by_label("Zoom").focus()
    assert pane.locator("select option:checked").inner_text() == "50 %"
    zoomed(pane, "100 %")
    pane.get_by_label("Show parameters").uncheck()


@pytest.mark.parametrize(("theme", "width"), [("Light", 1400), ("Dark", 900)])
def test_modules_are_a_tree_by_time(ran, pane, screenshots, theme, width):
    ran.theme(f"JupyterLab {theme}")
    ran.page.set_viewport_size({"width": width, "height": 1400})
    pane.screenshot(path=screenshots / f"drawing-{theme.lower()}-{width}.png")
    pane.locator(".widget-toggle-button", has_text="Modules").click()
    expect(pane.get_by_text("Modules, by the time of their operations in eager")).to_be_visible()
    layers = pane.locator("summary", has_text="TransformerEncoderLayer × 6")
    attention = pane.locator("summary", has_text="MultiheadAttention").first
    expect(attention).to_be_hidden()
    layers.click()
    expect(attention).to_be_visible()
    assert findings(ran.page, ".dx-live .dx:has(.dx-tree)") == ""
    pane.screenshot(path=screenshots / f"modules-{theme.lower()}-{width}.png")
    layers.click()
