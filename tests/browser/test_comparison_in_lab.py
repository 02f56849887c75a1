"""The comparison in JupyterLab: sort it, use what won, stop it half-way."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import expect

NOTEBOOK = "compare.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch

model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8))
x = torch.randn(32, 64)
"""
COMPARE = """\
%%dynamo compare -b onnxrt,ofi --budget 4
with torch.no_grad():
    y = model(x).softmax(-1)
"""
AFTER = """\
%%dynamo --quiet -o after
with torch.no_grad():
    y = model(x).softmax(-1)
"""
BACKEND = "after.backend"
LONG = COMPARE.replace("--budget 4", "-n 100000")


@pytest.fixture(scope="module")
def ran(lab_page):
    """The notebook, opened and run up to the comparison; its page."""
    lab_page.open_with(NOTEBOOK, SET_UP, COMPARE, AFTER, BACKEND, LONG, run=2)
    return lab_page


def names(view):
    """The candidates, in the order of the table."""
    return [text.split("\n")[0].strip() for text in view.locator("tbody th").all_inner_texts()]


def test_a_header_sorts_and_turns_round(ran):
    view = ran.outputs(1).locator(".dx-live")
    assert set(names(view)) >= {"eager", "onnxrt", "ofi"}
    header = view.locator("button.dx-sort-by").first
    header.click()
    pressed = view.locator("th:is([aria-sort=ascending], [aria-sort=descending])")
    expect(pressed).to_have_count(1)
    first, order = pressed.get_attribute("aria-sort"), names(view)
    view.locator("button.dx-sort-by").first.click()
    expect(pressed).not_to_have_attribute("aria-sort", first)
    assert sorted(names(view)) == sorted(order)


def test_the_filter_leaves_what_it_names(ran):
    view = ran.outputs(1).locator(".dx-live")
    box = view.get_by_placeholder("name, option or verdict")
    box.fill("onnxrt")
    box.press("Enter")
    expect(view.get_by_text(re.compile(r"filtered out"))).to_be_visible()
    box.fill("")
    box.press("Enter")
    expect(view.get_by_text(re.compile(r"filtered out"))).to_have_count(0)


def test_the_button_sets_the_backend_of_the_next_cell(ran):
    view = ran.outputs(1).locator(".dx-live")
    view.locator("select", has=ran.page.locator("option", has_text="ofi")).first.select_option(
        "ofi"
    )
    view.get_by_role("button", name="Use this backend").click()
    expect(view.get_by_role("status")).to_contain_text("now use ofi")
    ran.run(2)
    assert ran.run(3).locator(".jp-OutputArea-output").inner_text().strip() == "'ofi'"


@pytest.mark.parametrize(("theme", "width"), [("Light", 1400), ("Dark", 900)])
def test_both_themes_and_widths_fit(ran, screenshots, theme, width):
    ran.theme(f"JupyterLab {theme}")
    ran.page.set_viewport_size({"width": width, "height": 1400})
    view = ran.outputs(1).locator(".dx-live")
    expect(view).to_be_visible()
    view.screenshot(path=screenshots / f"compare-{theme.lower()}-{width}.png")
    inside = view.evaluate("e => e.scrollWidth <= e.clientWidth + 1")
    assert inside, "nothing is wider than its output"


def test_an_interrupt_keeps_what_was_measured(ran):
    ran.theme("JupyterLab Light")
    ran.start(4)
    outputs = ran.outputs(4)
    expect(outputs.get_by_text(re.compile(r"round", re.IGNORECASE)).first).to_be_visible(
        timeout=120_000
    )
    ran.interrupt()
    expect(
        outputs.locator(".dx-live").get_by_text(re.compile("^Partial|Partial:")).first
    ).to_be_visible()
    expect(outputs.get_by_text("the comparison shown above is partial")).to_be_visible()
