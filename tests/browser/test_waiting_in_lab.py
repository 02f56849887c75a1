"""What a user of JupyterLab sees while a cell compiles, races and is compared."""

from __future__ import annotations

import re
import time

import pytest
from playwright.sync_api import expect

NOTEBOOK = "waiting.ipynb"
SET_UP = """\
%load_ext dynamo_ext
import torch

layers = [torch.nn.Linear(256, 256), torch.nn.GELU()]
model = torch.nn.Sequential(*[each for _ in range(6) for each in layers])
x = torch.randn(64, 256)
"""
COMPARE = """\
%%dynamo compare -b onnxrt,openvino,ts --budget 6
with torch.no_grad():
    y = model(x)
"""
AUTO = """\
%%dynamo -b auto --opt candidates=tvm+inductor+onnxrt+openvino --opt remember=False
with torch.no_grad():
    y = model(x)
"""
STATUS = "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.status"
MILLISECONDS = 60_000


@pytest.fixture(scope="module")
def opened(lab_page):
    lab_page.open_with(NOTEBOOK, SET_UP, COMPARE, AUTO, run=1)
    return lab_page


def until_it_is_over(opened, index, look):
    """Look every 0.1 s while a cell shows how far it is; the kernel's states meanwhile."""
    states = set()
    place = opened.outputs(index).locator(".dx-waiting")
    while True:
        state = opened.page.evaluate(STATUS)
        text = place.all_inner_texts()
        if text:
            states.add(state)
            look(text[0])
        elif state != "busy":
            return states
        # Else what a comparison announces is taking its place above it.
        time.sleep(0.1)


def test_a_comparison_shows_every_candidate_while_it_goes_on(opened, screenshots):
    opened.start(1)
    place = opened.outputs(1).locator(".dx-waiting")
    expect(place).to_contain_text("loading torch._dynamo", timeout=MILLISECONDS)
    seen: list[str] = []

    def look(text):
        if "timing, round" in text and not any("timing, round" in each for each in seen):
            opened.cell(1).screenshot(path=screenshots / "waiting-compare.png")
        seen.append(text)

    states = until_it_is_over(opened, 1, look)
    told = "\n".join(seen)
    assert re.search(r"onnxrt\s+compiling", told)
    assert re.search(r"ts\s+waits", told)
    assert re.search(r"about \d+ s left", told)
    assert re.search(r"openvino\s+being timed\s+[\d.]+ \S+ a call", told)
    assert states == {"busy"}
    expect(opened.outputs(1).locator(".dx-live")).to_be_visible(timeout=MILLISECONDS)


def test_auto_shows_the_race_of_each_graph(opened, screenshots):
    opened.start(2)
    place = opened.outputs(2).locator(".dx-waiting")
    expect(place.locator("table")).to_be_visible(timeout=MILLISECONDS)
    opened.cell(2).screenshot(path=screenshots / "waiting-auto.png")
    seen: list[str] = []
    states = until_it_is_over(opened, 2, seen.append)
    told = "\n".join(seen)
    assert re.search(r"Racing graph 1 \(\d+ operations of the cell\)", told)
    for name in ("tvm", "inductor", "onnxrt", "openvino"):
        # A slow one may be out of the race before the first look.
        states_of_rows = "waits|compiling|ready|being timed|Clearly slower after"
        assert re.search(rf"{name}\s+({states_of_rows})", told)
    assert states == {"busy"}
