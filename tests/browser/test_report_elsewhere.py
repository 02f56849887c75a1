"""The report in other front ends than JupyterLab: Voilà, and Notebook 7 by itself."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from dynamo_ext.widgets.report.view import TITLES
from tests.browser.servers import CELL_MILLISECONDS, KERNEL_IS_IDLE, served, server_words, write

NAME = "report.ipynb"
CELLS = (
    "%load_ext dynamo_ext\nimport torch\nx = torch.randn(8, 8)",
    "%%dynamo -b eager\ny = (x @ x).relu()\nprint('between')\nz = y.sum()",
)
RUN_ALL = "() => window.jupyterapp.commands.execute('notebook:run-all-cells')"


def look(page, screenshots, name):
    """One report, alive: each of its parts opens, and its static form is not shown beside it."""
    view = page.locator(".dx-live")
    expect(view).to_have_count(1, timeout=CELL_MILLISECONDS)
    expect(view.get_by_text("splits the graph because it prints")).to_be_visible()
    expect(page.locator(".dx-static")).to_be_hidden()
    tabs = view.locator(".lm-TabBar-tab")
    expect(tabs).to_have_count(len(TITLES))
    for index in range(len(TITLES)):
        tabs.nth(index).click()
        pane = view.locator(".widget-tab-contents > :not(.lm-mod-hidden)")
        expect(pane).to_have_count(1)
        expect(pane).not_to_be_empty()
    tabs.nth(TITLES.index("Guards")).click()
    expect(view).to_contain_text("must stay a float32 tensor")
    page.screenshot(path=screenshots / f"{name}.png")


def test_in_voila(page, tmp_path, screenshots):
    pytest.importorskip("voila")
    write(tmp_path / NAME, *CELLS)
    words = [str(tmp_path / NAME), "--Voila.ip=127.0.0.1"]
    with served(tmp_path, "voila", *words, status="/voila/static/voila.js") as url:
        page.goto(url, timeout=CELL_MILLISECONDS)
        look(page, screenshots, "voila")


def test_in_notebook_7(page, tmp_path, screenshots):
    pytest.importorskip("notebook")
    folder = tmp_path / "notebooks"
    folder.mkdir()
    write(folder / NAME, *CELLS)
    words = [*server_words(folder), "--JupyterNotebookApp.expose_app_in_browser=True"]
    with served(tmp_path, "notebook", *words) as url:
        page.goto(f"{url}/notebooks/{NAME}", timeout=CELL_MILLISECONDS)
        page.wait_for_function("() => window.jupyterapp?.restored", timeout=CELL_MILLISECONDS)
        page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_MILLISECONDS)
        page.evaluate(RUN_ALL)
        look(page, screenshots, "notebook-7")
