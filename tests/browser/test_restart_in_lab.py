"""What stays of a report when its kernel is restarted under it."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES
from tests.browser.test_report_elsewhere import CELLS

NOTEBOOK = "restart.ipynb"


@pytest.fixture(scope="module")
def restarted(lab_page):
    """A report whose kernel has gone, in the page that showed it alive."""
    lab_page.open_with(NOTEBOOK, *CELLS, run=2)
    expect(lab_page.outputs(1).locator(".dx-live")).to_be_visible()
    lab_page.restart()
    return lab_page


def test_the_report_can_still_be_read(restarted, screenshots):
    outputs = restarted.outputs(1)
    outputs.screenshot(path=screenshots / "restarted.png")
    view = outputs.locator(".dx-live")
    expect(view.get_by_text("splits the graph because it prints")).to_be_visible()
    expect(outputs.get_by_text("Error displaying widget")).to_have_count(0)
    marks = "each => getComputedStyle(each, '::before').content"
    assert "kernel has gone" in view.evaluate(marks)
    inner = view.locator(".jupyter-widgets-disconnected").first
    assert inner.evaluate(marks) == "none"


def test_a_part_that_was_never_opened_says_what_to_do(restarted):
    view = restarted.outputs(1).locator(".dx-live")
    tabs = view.locator(".lm-TabBar-tab")
    tabs.nth(TITLES.index("Guards")).click()
    pane = view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")
    expect(pane).to_contain_text("un the cell again")


def test_the_cell_runs_again_in_the_new_kernel(restarted):
    restarted.run(0)
    outputs = restarted.run(1)
    expect(outputs.locator(".dx-live")).to_be_visible()
    tabs = outputs.locator(".dx-live .lm-TabBar-tab")
    expect(tabs).to_have_count(len(TITLES))
    tabs.nth(TITLES.index("Guards")).click()
    expect(outputs.locator(".dx-live")).to_contain_text("must stay a float32 tensor")
