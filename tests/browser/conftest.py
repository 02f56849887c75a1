"""A JupyterLab, other servers of notebooks, and a Chromium to look at them with.

The Lab lives as long as the test session, with its settings and data in a temporary folder. The
page lives as long as one test module: Playwright keeps an event loop on this thread, and other
tests start their own.
"""

from __future__ import annotations

import contextlib
import json
import shutil
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from playwright.sync_api import TimeoutError as NotInTime
from playwright.sync_api import expect, sync_playwright

from tests.browser.servers import CELL_MILLISECONDS, KERNEL_IS_IDLE, served, server_words, write

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Locator, Page

ROOT = Path(__file__).parents[2]
CHROMIUM_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# Begun here and awaited by a question: a promise of the Lab's may be collected, never settled.
OPEN_NOTEBOOK = """path => {
  window.jupyterapp.commands.execute('docmanager:open', {path, factory: 'Notebook'});
}"""
NOTEBOOK_IS_SHOWN = """path => {
  const shell = window.jupyterapp.shell;
  const panel = [...shell.widgets('main')].find(widget => widget.context?.path === path);
  if (!panel?.context.isReady) return false;
  shell.activateById(panel.id);
  return shell.currentWidget === panel;
}"""
RUN_CELL = """async index => {
  const app = window.jupyterapp;
  const notebook = app.shell.currentWidget.content;
  notebook.activeCellIndex = index;
  notebook.deselectAll();
  await app.commands.execute('notebook:run-cell');
}"""
START_CELL = RUN_CELL.replace("await app.commands", "app.commands")
INTERRUPT = "() => window.jupyterapp.commands.execute('notebook:interrupt-kernel')"
RESTART = """() => {
  const session = window.jupyterapp.shell.currentWidget.sessionContext;
  return session.session.kernel.restart();
}"""
SAVE_AND_END_KERNEL = """async () => {
  const app = window.jupyterapp;
  const panel = app.shell.currentWidget;
  await panel.context.save();
  await panel.sessionContext.shutdown();
}"""
CLOSE_ALL = """async () => {
  const app = window.jupyterapp;
  await app.commands.execute('application:close-all');
}"""
SET_THEME = "theme => window.jupyterapp.commands.execute('apputils:change-theme', {theme})"


@dataclass(frozen=True)
class Lab:
    """A running JupyterLab: its address, and the folder it serves."""

    url: str
    folder: Path


@dataclass
class LabPage:
    """JupyterLab in a browser, driven through its own commands."""

    page: Page
    lab: Lab

    def write(self, name: str, *cells: str) -> None:
        """Write a notebook of these code cells into the folder that the Lab serves."""
        write(self.lab.folder / name, *cells)

    def open(self, name: str) -> None:
        """Open a notebook with a kernel."""
        self.show(name)
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_MILLISECONDS)

    def open_with(self, name: str, *cells: str, run: int) -> None:
        """Write a notebook of these code cells, open it, and run the first few of them."""
        self.write(name, *cells)
        self.open(name)
        for index in range(run):
            self.run(index)

    def show(self, name: str) -> None:
        """Open a notebook, whatever its kernel does."""
        for milliseconds in (20_000, CELL_MILLISECONDS):
            self.page.evaluate(OPEN_NOTEBOOK, name)
            with contextlib.suppress(NotInTime):
                self.page.wait_for_function(NOTEBOOK_IS_SHOWN, arg=name, timeout=milliseconds)
                return
        pytest.fail(f"The Lab did not open {name}.")

    def start(self, index: int) -> None:
        """Run a cell, and do not wait for it."""
        self.page.evaluate(START_CELL, index)

    def interrupt(self) -> None:
        """Interrupt the kernel, and wait until it is idle."""
        self.page.evaluate(INTERRUPT)
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_MILLISECONDS)

    def restart(self) -> None:
        """Restart the kernel, and wait until it is idle."""
        self.page.evaluate(RESTART)
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_MILLISECONDS)

    def run(self, index: int) -> Locator:
        """Run a cell to its end; its outputs."""
        self.page.evaluate(RUN_CELL, index)
        self.page.wait_for_function(KERNEL_IS_IDLE, timeout=CELL_MILLISECONDS)
        return self.outputs(index)

    def cell(self, index: int) -> Locator:
        """A code cell of the open notebook, input and outputs."""
        return self.page.locator(".jp-NotebookPanel:not(.lm-mod-hidden) .jp-CodeCell").nth(index)

    def outputs(self, index: int) -> Locator:
        """The output area of a cell of the open notebook."""
        return self.cell(index).locator(".jp-OutputArea").first

    def theme(self, name: str) -> None:
        """Switch to ``JupyterLab Light`` or ``JupyterLab Dark``."""
        self.page.evaluate(SET_THEME, name)
        light = "true" if name == "JupyterLab Light" else "false"
        self.page.wait_for_selector(f"body[data-jp-theme-light='{light}']", state="attached")

    def reload_without_kernel(self, name: str) -> None:
        """Save the open notebook, end its kernel, and open it on a new page."""
        self.page.evaluate(SAVE_AND_END_KERNEL)
        self.page.evaluate(CLOSE_ALL)
        self.load()
        self.show(name)

    def load(self) -> None:
        """Load the Lab's page anew, with nothing open."""
        # A workspace of its own: the Lab may load a page that is to be `?reset` a second time, and
        # what was begun on it is lost.
        self.page.goto(f"{self.lab.url}/lab/workspaces/{uuid.uuid4().hex}")
        self.page.wait_for_function("() => window.jupyterapp?.restored", timeout=CELL_MILLISECONDS)
        self.page.evaluate("async () => { await window.jupyterapp.restored; }")


@pytest.fixture(scope="session")
def lab(tmp_path_factory) -> Iterator[Lab]:
    home = tmp_path_factory.mktemp("lab")
    folder = home / "notebooks"
    folder.mkdir()
    settings = home / "settings"
    news = settings / "@jupyterlab" / "apputils-extension"
    news.mkdir(parents=True)
    quiet = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
    (news / "notification.jupyterlab-settings").write_text(json.dumps(quiet), encoding="utf-8")
    words = [*server_words(folder), "--LabApp.expose_app_in_browser=True"]
    with served(home, "jupyterlab", *words) as url:
        yield Lab(url, folder)


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    """An empty page of a Chromium."""
    chromium = shutil.which("chromium") or shutil.which("google-chrome") or "/usr/bin/chromium"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=chromium, args=CHROMIUM_ARGUMENTS, headless=True
        )
        opened = browser.new_page(viewport={"width": 1280, "height": 1400})
        opened.set_default_timeout(30_000)
        expect.set_options(timeout=30_000)
        yield opened
        browser.close()


@pytest.fixture(scope="module")
def lab_page(lab, page) -> LabPage:
    opened = LabPage(page, lab)
    opened.load()
    return opened


@pytest.fixture(scope="session")
def screenshots() -> Path:
    folder = ROOT / "build" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


@pytest.fixture(scope="module")
def ran(request, lab_page):
    """The notebook of a module with one cell under the magic, opened and run; its page."""
    named = request.module
    lab_page.open_with(named.NOTEBOOK, named.SET_UP, named.CELL, run=2)
    return lab_page
