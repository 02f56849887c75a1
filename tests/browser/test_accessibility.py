"""Keyboard and screen reader: what axe finds in reports and comparisons, saved and live."""

from __future__ import annotations

import pytest
import torch
from axe_playwright_python.sync_playwright import Axe

import dynamo_ext
from tests.browser.test_report_elsewhere import CELLS

NOTEBOOK = "accessible.ipynb"
SERIOUS = {"serious", "critical"}
TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]


def findings(page, context=None):
    """What axe calls serious or worse, as text."""
    found = Axe().run(page, context=context, options={"runOnly": {"type": "tag", "values": TAGS}})
    return "\n\n".join(
        f"{each['impact']} {each['id']}: {each['help']}\n"
        + "\n".join(f"  {node['html'][:300]} {node['any'][:1]}" for node in each["nodes"][:4])
        for each in found.response["violations"]
        if each["impact"] in SERIOUS
    )


def forward(x):
    y = (x @ x).relu()
    return y.sum().item() * y, x.argmax()


@pytest.fixture(scope="module")
def pages():
    x = torch.randn(8, 8)
    session = dynamo_ext.optimize("onnxrt")
    session(forward)(x)
    compared = dynamo_ext.compare(torch.nn.Linear(8, 8), (x,), "onnxrt,ts", rounds=6)
    from dynamo_ext.widgets.comparison import static

    return {"report": session.report.to_html(), "comparison": static.page(compared.record)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("which", ["report", "comparison"])
def test_a_saved_page_has_no_serious_finding(page, pages, which, scheme):
    page.emulate_media(color_scheme=scheme)
    # On a narrow page tables scroll, which a keyboard has to reach.
    page.set_viewport_size({"width": 600 if scheme == "light" else 1280, "height": 900})
    page.set_content(pages[which])
    page.evaluate("() => document.querySelectorAll('details').forEach(each => each.open = true)")
    assert findings(page) == ""


def test_a_live_report_has_no_serious_finding(lab_page):
    lab_page.open_with(NOTEBOOK, *CELLS, run=2)
    view = lab_page.outputs(1).locator(".dx-live")
    tabs = view.locator(".lm-TabBar-tab")
    for index in range(tabs.count()):
        tabs.nth(index).click()
        # Ours alone: the Lab around it, and ipywidgets' own tabs, are not for us to mend.
        assert findings(lab_page.page, ".dx-live .dx") == "", tabs.nth(index).inner_text()
