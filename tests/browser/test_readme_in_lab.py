"""README's own cells in JupyterLab, as its pictures show them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

NOTEBOOK = "readme.ipynb"
README = Path(__file__).parents[2] / "README.md"


@pytest.fixture(scope="module")
def ran(lab_page):
    """A notebook of README's cells: the setup, a report, a comparison."""
    cells = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
    lab_page.page.set_viewport_size({"width": 1200, "height": 1400})
    lab_page.open_with(NOTEBOOK, *(cell.rstrip() for cell in cells[:3]), run=3)
    return lab_page


def test_the_first_report_begins_with_what_was_gained(ran, screenshots):
    view = ran.outputs(1).locator(".dx-live")
    for words in ("✓ compiled", "Gain", "Cost", "Next"):
        expect(view).to_contain_text(words)
    ran.cell(1).screenshot(path=screenshots / "readme-report.png")


def test_the_comparison_has_a_row_for_each_backend(ran, screenshots):
    outputs = ran.outputs(2)
    for name in ("onnxrt", "openvino", "inductor"):
        expect(outputs.locator(".dx-live")).to_contain_text(name)
    ran.cell(2).screenshot(path=screenshots / "readme-compare.png")
